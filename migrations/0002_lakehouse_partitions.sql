-- The catalogue of the lake: one row for each published Parquet object. An object holds one audience.

create table lakehouse_partitions (
    partition_id uuid primary key,
    view_set text not null check (view_set <> ''),
    audience varchar(255) check (audience ~ '^[A-Za-z0-9_-]+$'),
    -- relative to the object store's root
    path text not null unique check (path <> ''),
    file_bytes bigint not null check (file_bytes > 0),
    -- bounds of the rows' own times, nanoseconds since 1970 UTC; null when no row has one
    min_time_ns bigint,
    max_time_ns bigint,
    -- bounds of when the rows were committed
    min_insert_time timestamptz not null,
    max_insert_time timestamptz not null,
    -- 0 as ingested; minutes, hours and days after merging
    level smallint not null check (level between 0 and 3),
    -- the processes in it, at level 0 and when they are few
    process_ids uuid[],
    created_at timestamptz not null default now(),
    check ((min_time_ns is null) = (max_time_ns is null)),
    check (min_time_ns <= max_time_ns),
    check (min_insert_time <= max_insert_time)
);

-- Pruning: equality on view and audience, then partitions that end after the query begins; the last
-- column decides about the other bound without a visit to the table.
create index lakehouse_partitions_pruning
    on lakehouse_partitions (view_set, audience, max_time_ns, min_time_ns);
