-- What each key was used for, by hour, and who changed what about keys, grants and groups.

create table api_key_usage (
    key_id uuid not null,
    -- start of an hour, UTC
    hour timestamptz not null check (extract(epoch from hour)::bigint % 3600 = 0),
    requests bigint not null default 0 check (requests >= 0),
    bytes bigint not null default 0 check (bytes >= 0),
    records bigint not null default 0 check (records >= 0),
    primary key (key_id, hour)
);

create index api_key_usage_hour on api_key_usage (hour);

create table audit_log (
    audit_id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    -- email or subject of who did it
    actor varchar(255) not null check (actor <> ''),
    -- for example key.mint, key.revoke, grant.create, grant.delete, group.add_member
    action text not null check (action <> ''),
    -- what it was done to: a key id, a grant, a group
    target text not null,
    details jsonb not null default '{}'
);

create index audit_log_newest on audit_log (at desc);

create function audit_log_refuse_change() returns trigger
language plpgsql as $$
begin
    raise exception 'audit_log is append-only: % is refused', tg_op
        using errcode = 'insufficient_privilege';
end
$$;

-- For each statement, so that even one that meets no row is refused, and truncate with it.
create trigger audit_log_append_only
    before update or delete or truncate on audit_log
    for each statement execute function audit_log_refuse_change();
