-- What sent telemetry (process), one flow of one signal from it (stream), and one request's share of
-- one resource (block). Audience null: unstamped.

create table schema_version (
    version integer primary key check (version >= 1),
    name text not null,
    applied_at timestamptz not null default now()
);

create table processes (
    process_id uuid primary key,
    audience varchar(255) check (audience ~ '^[A-Za-z0-9_-]+$'),
    service_namespace text,
    service_name text,
    service_instance_id text,
    service_version text,
    host_id text,
    host_name text,
    process_pid bigint,
    executable text,
    username text,
    sdk_name text,
    sdk_language text,
    sdk_version text,
    start_time timestamptz,
    insert_time timestamptz not null default now(),
    properties jsonb not null
);

create table streams (
    stream_id uuid primary key,
    process_id uuid not null,
    audience varchar(255) check (audience ~ '^[A-Za-z0-9_-]+$'),
    -- 1 logs, 2 metrics, 3 traces
    signal smallint not null check (signal between 1 and 3),
    insert_time timestamptz not null default now()
);

create index streams_process_id on streams (process_id);

-- The primary key is what makes the same bytes count once, and it is paid for on every request: no
-- foreign keys and no other index here.
create table blocks (
    block_id uuid primary key,
    stream_id uuid not null,
    process_id uuid not null,
    audience varchar(255) check (audience ~ '^[A-Za-z0-9_-]+$'),
    signal smallint not null check (signal between 1 and 3),
    begin_time_ns bigint,
    end_time_ns bigint,
    row_count integer not null check (row_count >= 0),
    payload_bytes integer not null check (payload_bytes >= 0),
    insert_time timestamptz not null default now()
);
