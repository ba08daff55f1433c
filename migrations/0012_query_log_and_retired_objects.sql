-- What was asked of the analytics servers, and objects that have left the catalogue.

create table query_log (
    query_id uuid primary key,
    -- when it began
    time timestamptz not null,
    -- email, subject or key of whoever asked
    caller text not null,
    client text not null,
    sql text not null,
    -- SHA-256 of the whole text, in hex
    sql_hash text not null,
    -- the same for queries that differ in their constants only; null when the text was refused
    fingerprint text,
    duration_ms double precision not null check (duration_ms >= 0),
    row_count bigint not null check (row_count >= 0),
    bytes bigint not null check (bytes >= 0),
    partitions integer not null check (partitions >= 0),
    -- null when the query ended before it was measured
    peak_memory_bytes bigint,
    -- OK, or the code of the error
    outcome text not null check (outcome <> '')
);

create index query_log_time on query_log (time);

-- Objects that left the catalogue and may still be open in a query: removed after a grace period.
create table retired_objects (
    path text primary key,
    file_bytes bigint not null,
    retired_at timestamptz not null default now()
);

create index retired_objects_retired_at on retired_objects (retired_at);
