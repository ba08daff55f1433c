-- The database role of the ingestion server and of maintenance: exactly what it needs, and Postgres refuses the rest.
-- Run by the owner of the tables after every migration; running it again changes nothing. The role
-- cannot log in: grant it to the login of the server (grant telemetry_ingestion to <login>).
-- Servers under these roles run no migrations; the owner does, for example with a first start of the
-- ingestion server under the owner's login.

do $$
begin
    create role telemetry_ingestion nologin;
exception
    -- a concurrent run may have got there first
    when duplicate_object or unique_violation then null;
end
$$;

grant usage on schema public to telemetry_ingestion;
grant select on schema_version to telemetry_ingestion;

-- keys: of the key and grant tables this one only
grant select, update (last_used_at) on ingestion_api_keys to telemetry_ingestion;

-- the catalogue: publish, merge, retire
grant select, insert, delete on processes, streams, blocks, lakehouse_partitions, retired_objects
    to telemetry_ingestion;
grant update (rollup_path, rollup_bytes, min_insert_time) on lakehouse_partitions to telemetry_ingestion;

-- usage per key and hour is added up
grant select, insert, update on api_key_usage to telemetry_ingestion;

-- retention, erasures and checks, which maintenance does
grant select on retention_overrides to telemetry_ingestion;
grant select, update (state, rows_removed, objects_rewritten, objects_removed, report, error, started_at, finished_at)
    on lake_tasks to telemetry_ingestion;
grant select, insert, delete on lost_partitions to telemetry_ingestion;
grant select, update (seen_at, hold_until, marked, retention_days, retention_seen_at) on lake_state to telemetry_ingestion;
-- a restore without the roles leaves these to everybody, as Postgres has it
revoke execute on function prepare_key_usage(), drop_key_usage(timestamptz) from public;
grant execute on function prepare_key_usage(), drop_key_usage(timestamptz) to telemetry_ingestion;
