-- The database role of the analytics server (FlightSQL): exactly what it needs, and Postgres refuses the rest.
-- Run by the owner of the tables after every migration; running it again changes nothing. The role
-- cannot log in: grant it to the login of the server (grant telemetry_analytics to <login>).
-- Servers under these roles run no migrations; the owner does, for example with a first start of the
-- ingestion server under the owner's login.

do $$
begin
    create role telemetry_analytics nologin;
exception
    -- a concurrent run may have got there first
    when duplicate_object or unique_violation then null;
end
$$;

grant usage on schema public to telemetry_analytics;
grant select on schema_version to telemetry_analytics;

-- keys: its own table only; grants and groups to read
grant select, update (last_used_at) on analytics_api_keys to telemetry_analytics;
grant select on audience_grants, groups, group_members to telemetry_analytics;

-- what ingestion keys were used for, under their names; of the table of those keys nothing, where earlier releases gave
-- columns
grant select on api_key_usage, ingestion_key_names to telemetry_analytics;
revoke all on ingestion_api_keys from telemetry_analytics;

-- the catalogue: read, and what the nine administrative functions change
grant select on processes, streams, blocks to telemetry_analytics;
grant select, insert, delete on lakehouse_partitions to telemetry_analytics;
grant select, insert, delete on query_denials to telemetry_analytics;
grant insert on audit_log to telemetry_analytics;

-- what was asked, and the objects that leave the catalogue, which maintenance removes
grant select, insert, delete on query_log to telemetry_analytics;
grant select, insert on retired_objects to telemetry_analytics;
revoke delete on retired_objects from telemetry_analytics;

-- what a repair took out was in the hands of earlier releases
revoke all on lost_partitions from telemetry_analytics;
