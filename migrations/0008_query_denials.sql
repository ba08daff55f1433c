-- Queries that are refused: each rule is an expression over who asks and what is asked.

create table query_denials (
    rule_id uuid primary key,
    match_expr text not null check (match_expr <> ''),
    reason text not null,
    created_at timestamptz not null default now(),
    created_by varchar(255) not null check (created_by <> '')
);
