-- How long rows are kept, what administrators ask of the lake, and indexes and partitions that let old rows go.

-- Overrides of SVC_RETENTION_DAYS; the most specific one wins.
create table retention_overrides (
    -- a table of the lake, or api_key_usage
    view_set text not null check (view_set <> ''),
    -- null: every audience that has no override of its own
    audience varchar(255) check (audience ~ '^[A-Za-z0-9_-]+$'),
    -- 0: for good
    days integer not null check (days between 0 and 36500),
    updated_at timestamptz not null default now(),
    updated_by varchar(255) not null check (updated_by <> '')
);

create unique index retention_overrides_target on retention_overrides (view_set, (coalesce(audience, '')));

-- Erasures and checks: asked for by administrators, done by maintenance.
create table lake_tasks (
    task_id uuid primary key default gen_random_uuid(),
    kind text not null check (kind in ('erasure', 'check')),
    request jsonb not null,
    state text not null default 'waiting' check (state in ('waiting', 'running', 'done', 'failed')),
    -- Of an erasure; each object adds to them in the transaction that replaces it.
    rows_removed bigint not null default 0 check (rows_removed >= 0),
    objects_rewritten bigint not null default 0 check (objects_rewritten >= 0),
    objects_removed bigint not null default 0 check (objects_removed >= 0),
    -- Of a check: what was found, and mended.
    report jsonb,
    error text,
    created_at timestamptz not null default now(),
    created_by varchar(255) not null check (created_by <> ''),
    started_at timestamptz,
    finished_at timestamptz
);

create index lake_tasks_newest on lake_tasks (kind, created_at desc, task_id);
create index lake_tasks_open on lake_tasks (created_at) where state in ('waiting', 'running');

-- The end of a task is in the audit, and whoever does it needs no right to write there.
create function lake_tasks_audit_end() returns trigger
language plpgsql security definer set search_path = pg_catalog, public as $$
begin
    insert into audit_log (actor, action, target, details)
    values ('maintenance',
        case new.kind when 'erasure' then 'erasure.' else 'lake_check.' end || new.state,
        new.task_id::text,
        case new.kind
            when 'erasure' then jsonb_build_object('rows_removed', new.rows_removed::text,
                'objects_rewritten', new.objects_rewritten::text, 'objects_removed', new.objects_removed::text)
            else coalesce(new.report -> 'counts', '{}')
        end);
    return null;
end
$$;
revoke execute on function lake_tasks_audit_end() from public;

create trigger lake_tasks_end after update of state on lake_tasks
    for each row when (old.state in ('waiting', 'running') and new.state in ('done', 'failed'))
    execute function lake_tasks_audit_end();

-- Partitions that a repair took out of the catalogue, because their objects are gone or cannot be read. The row is
-- kept as it was: the next repair puts it back when the object has returned.
create table lost_partitions (
    partition_id uuid primary key,
    path text not null unique,
    -- missing, unreadable
    reason text not null check (reason <> ''),
    lost_at timestamptz not null default now(),
    -- the row of lakehouse_partitions
    partition jsonb not null
);

-- What maintenance remembers about the lake: one row.
create table lake_state (
    one boolean primary key default true check (one),
    -- also the name of an object in the store that belongs to this database
    lake_id uuid not null default gen_random_uuid(),
    -- that object was written: a store without it is another one, or not mounted
    marked boolean not null default false,
    -- the last time that was seen on the database's clock
    seen_at timestamptz,
    -- nothing goes for its age before this time, because the clock has jumped
    hold_until timestamptz
);
insert into lake_state default values;

-- Old blocks are found by their stream, and so is whether a stream has any. The table is not partitioned by time: its
-- primary key has to be the id alone, which is what makes bytes count once however late they come again, and the key of
-- a partitioned table has to hold what it is partitioned by. The index costs 2 to 4 us for each request and resource.
set local maintenance_work_mem = '256MB';
create index blocks_stream_inserted on blocks (stream_id, insert_time);

-- Usage by months, which are dropped as a whole. What there is becomes the first partition as it is, unmoved.
alter table api_key_usage rename to api_key_usage_past;
alter table api_key_usage_past rename constraint api_key_usage_pkey to api_key_usage_past_pkey;
alter index api_key_usage_hour rename to api_key_usage_past_hour;

create table api_key_usage (
    key_id uuid not null,
    -- start of an hour, UTC
    hour timestamptz not null,
    requests bigint not null default 0,
    bytes bigint not null default 0,
    records bigint not null default 0,
    constraint api_key_usage_hour_check check (extract(epoch from hour)::bigint % 3600 = 0),
    constraint api_key_usage_requests_check check (requests >= 0),
    constraint api_key_usage_bytes_check check (bytes >= 0),
    constraint api_key_usage_records_check check (records >= 0),
    primary key (key_id, hour) include (requests, bytes, records)
) partition by range (hour);

create index api_key_usage_hour on api_key_usage (hour);

do $$
declare
    until timestamptz;
begin
    select date_trunc('month', greatest(now(), max(hour)), 'UTC') + interval '1 month' into until from api_key_usage_past;
    -- In UTC a month ends at midnight; `+ interval` counts in the session's time zone.
    until := date_trunc('month', until + interval '5 days', 'UTC');
    execute format('alter table api_key_usage attach partition api_key_usage_past for values from (minvalue) to (%L)', until);
end
$$;

-- Hours for which there is no month yet: nobody has prepared it, or a clock is far ahead.
create table api_key_usage_rest partition of api_key_usage default;
alter table api_key_usage_rest set (autovacuum_vacuum_insert_scale_factor = 0.02);

-- Makes the partitions of this month and the next two. A month of which there are hours elsewhere already gets none.
create function prepare_key_usage() returns void
language plpgsql security definer set search_path = pg_catalog, public set lock_timeout = '2s' set timezone = 'UTC' as $$
declare
    month timestamptz;
    name text;
begin
    -- "usag" in ASCII: one at a time.
    perform pg_advisory_xact_lock(x'75736167'::int);
    for i in 0..2 loop
        month := date_trunc('month', now()) + i * interval '1 month';
        name := 'api_key_usage_' || to_char(month, 'YYYYMM');
        continue when to_regclass('public.' || name) is not null;
        begin
            execute format('create table public.%I partition of public.api_key_usage for values from (%L) to (%L)
                with (autovacuum_vacuum_insert_scale_factor = 0.02)', name, month, month + interval '1 month');
        exception when invalid_object_definition or check_violation then
            null;
        end;
    end loop;
end
$$;
revoke execute on function prepare_key_usage() from public;

-- Drops the months that ended before a time, and says how many.
create function drop_key_usage(before timestamptz) returns integer
language plpgsql security definer set search_path = pg_catalog, public set lock_timeout = '2s' as $$
declare
    old record;
    dropped integer := 0;
begin
    perform pg_advisory_xact_lock(x'75736167'::int);
    for old in
        select c.oid::regclass as name
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'public.api_key_usage'::regclass
            and (regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \(''([^'']+)''\)'))[1]::timestamptz <= before
        order by 1
    loop
        execute format('drop table %s', old.name);
        dropped := dropped + 1;
    end loop;
    delete from public.api_key_usage_rest where hour < before;
    return dropped;
end
$$;
revoke execute on function drop_key_usage(timestamptz) from public;
