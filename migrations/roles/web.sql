-- The database role of the web server: exactly what it needs, and Postgres refuses the rest.
-- Run by the owner of the tables after every migration; running it again changes nothing. The role
-- cannot log in: grant it to the login of the server (grant telemetry_web to <login>).
-- Servers under these roles run no migrations; the owner does, for example with a first start of the
-- ingestion server under the owner's login.

do $$
begin
    create role telemetry_web nologin;
exception
    -- a concurrent run may have got there first
    when duplicate_object or unique_violation then null;
end
$$;

grant usage on schema public to telemetry_web;
grant select on schema_version to telemetry_web;

grant select, insert, update (revoked_at, revoked_by) on ingestion_api_keys, analytics_api_keys
    to telemetry_web;
grant select, insert, delete on audience_grants, groups, group_members to telemetry_web;

-- what it shows, and the log of what it changed, which is append-only
grant select on api_key_usage to telemetry_web;
grant select, insert on audit_log to telemetry_web;

-- what it asks of maintenance
grant select, insert, update, delete on retention_overrides to telemetry_web;
grant select, insert on lake_tasks to telemetry_web;
grant select (retention_days, retention_seen_at, hold_until) on lake_state to telemetry_web;

-- its own tables (data sources, screens, maps)
do $$
begin
    execute format('grant create on database %I to telemetry_web', current_database());
end
$$;

-- The owner of the database uses them, too: a backup reads all of it.
do $$
begin
    if not (pg_has_role(current_user, 'telemetry_web', 'usage') and pg_has_role(current_user, 'telemetry_web', 'set')) then
        execute format('grant telemetry_web to %I with inherit true, set true', current_user);
    end if;
end
$$;

-- Those that a server under another login has made, or a restore, become its own: it reads, writes and migrates them.
do $$
declare
    relation regclass;
begin
    if exists (select from pg_namespace where nspname = 'web' and nspowner <> 'telemetry_web'::regrole) then
        alter schema web owner to telemetry_web;
        for relation in select oid::regclass from pg_class where relnamespace = 'web'::regnamespace and relkind = 'r' loop
            execute format('alter table %s owner to telemetry_web', relation);
        end loop;
    end if;
end
$$;
