-- API keys: only the SHA-256 of the key string is kept. The tables are two, so that the role of one
-- server needs no right on the other's keys.

create table ingestion_api_keys (
    key_id uuid primary key,
    key_hash bytea not null check (octet_length(key_hash) = 32),
    name varchar(255) not null check (octet_length(name) between 1 and 255),
    created_at timestamptz not null default now(),
    created_by varchar(255) not null check (created_by <> ''),
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by varchar(255),
    check (revoked_by is null or revoked_at is not null)
);

create unique index ingestion_api_keys_key_hash on ingestion_api_keys (key_hash);
-- "is there any live key" at start-up, and a caller's live keys when it mints another
create index ingestion_api_keys_live on ingestion_api_keys (created_by) where revoked_at is null;
create index ingestion_api_keys_newest on ingestion_api_keys (created_at desc, key_id);

create table analytics_api_keys (
    key_id uuid primary key,
    key_hash bytea not null check (octet_length(key_hash) = 32),
    name varchar(255) not null check (octet_length(name) between 1 and 255),
    created_at timestamptz not null default now(),
    created_by varchar(255) not null check (created_by <> ''),
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by varchar(255),
    check (revoked_by is null or revoked_at is not null)
);

create unique index analytics_api_keys_key_hash on analytics_api_keys (key_hash);
create index analytics_api_keys_live on analytics_api_keys (created_by) where revoked_at is null;
create index analytics_api_keys_newest on analytics_api_keys (created_at desc, key_id);
