-- The schema after the last migration, as test/helpers/postgres/schema.ts reads it from the catalogue.
-- A test compares it. After a new migration, rewrite it and check the difference:
--     npx -y pnpm@12 test dist/test/db/migrations.integration.test.js -u

table analytics_api_keys
    column key_id uuid not null
    column key_hash bytea not null
    column name character varying(255) not null
    column created_at timestamp with time zone not null default now()
    column created_by character varying(255) not null
    column last_used_at timestamp with time zone
    column revoked_at timestamp with time zone
    column revoked_by character varying(255)
    constraint analytics_api_keys_check CHECK (((revoked_by IS NULL) OR (revoked_at IS NOT NULL)))
    constraint analytics_api_keys_created_by_check CHECK (((created_by)::text <> ''::text))
    constraint analytics_api_keys_key_hash_check CHECK ((octet_length(key_hash) = 32))
    constraint analytics_api_keys_name_check CHECK (((octet_length((name)::text) >= 1) AND (octet_length((name)::text) <= 255)))
    constraint analytics_api_keys_pkey PRIMARY KEY (key_id)
    CREATE UNIQUE INDEX analytics_api_keys_key_hash ON public.analytics_api_keys USING btree (key_hash)
    CREATE INDEX analytics_api_keys_live ON public.analytics_api_keys USING btree (created_by) WHERE (revoked_at IS NULL)
    CREATE INDEX analytics_api_keys_live_newest ON public.analytics_api_keys USING btree (created_at DESC, key_id) WHERE (revoked_at IS NULL)
    CREATE INDEX analytics_api_keys_newest ON public.analytics_api_keys USING btree (created_at DESC, key_id)
    CREATE UNIQUE INDEX analytics_api_keys_pkey ON public.analytics_api_keys USING btree (key_id)

table api_key_usage
    column key_id uuid not null
    column hour timestamp with time zone not null
    column requests bigint not null default 0
    column bytes bigint not null default 0
    column records bigint not null default 0
    constraint api_key_usage_bytes_check CHECK ((bytes >= 0))
    constraint api_key_usage_hour_check CHECK ((((EXTRACT(epoch FROM hour))::bigint % (3600)::bigint) = 0))
    constraint api_key_usage_pkey PRIMARY KEY (key_id, hour) INCLUDE (requests, bytes, records)
    constraint api_key_usage_records_check CHECK ((records >= 0))
    constraint api_key_usage_requests_check CHECK ((requests >= 0))
    CREATE INDEX api_key_usage_hour ON ONLY public.api_key_usage USING btree (hour)
    CREATE UNIQUE INDEX api_key_usage_pkey ON ONLY public.api_key_usage USING btree (key_id, hour) INCLUDE (requests, bytes, records)

table api_key_usage_past
    column key_id uuid not null
    column hour timestamp with time zone not null
    column requests bigint not null default 0
    column bytes bigint not null default 0
    column records bigint not null default 0
    constraint api_key_usage_bytes_check CHECK ((bytes >= 0))
    constraint api_key_usage_hour_check CHECK ((((EXTRACT(epoch FROM hour))::bigint % (3600)::bigint) = 0))
    constraint api_key_usage_past_pkey PRIMARY KEY (key_id, hour) INCLUDE (requests, bytes, records)
    constraint api_key_usage_records_check CHECK ((records >= 0))
    constraint api_key_usage_requests_check CHECK ((requests >= 0))
    CREATE INDEX api_key_usage_past_hour ON public.api_key_usage_past USING btree (hour)
    CREATE UNIQUE INDEX api_key_usage_past_pkey ON public.api_key_usage_past USING btree (key_id, hour) INCLUDE (requests, bytes, records)

table api_key_usage_rest
    column key_id uuid not null
    column hour timestamp with time zone not null
    column requests bigint not null default 0
    column bytes bigint not null default 0
    column records bigint not null default 0
    constraint api_key_usage_bytes_check CHECK ((bytes >= 0))
    constraint api_key_usage_hour_check CHECK ((((EXTRACT(epoch FROM hour))::bigint % (3600)::bigint) = 0))
    constraint api_key_usage_records_check CHECK ((records >= 0))
    constraint api_key_usage_requests_check CHECK ((requests >= 0))
    constraint api_key_usage_rest_pkey PRIMARY KEY (key_id, hour) INCLUDE (requests, bytes, records)
    CREATE INDEX api_key_usage_rest_hour_idx ON public.api_key_usage_rest USING btree (hour)
    CREATE UNIQUE INDEX api_key_usage_rest_pkey ON public.api_key_usage_rest USING btree (key_id, hour) INCLUDE (requests, bytes, records)

table audience_grants
    column audience character varying(255) not null
    column kind text not null
    column member text not null
    column created_at timestamp with time zone not null default now()
    column created_by character varying(255) not null
    constraint audience_grants_audience_check CHECK (((audience)::text ~ '^[A-Za-z0-9_-]+$'::text))
    constraint audience_grants_check CHECK (((octet_length(member) <= 512) AND ((member = '*'::text) OR (member ~ '^(user|group):.'::text) OR ((kind = 'read'::text) AND (member ~ '^key:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'::text)))))
    constraint audience_grants_created_by_check CHECK (((created_by)::text <> ''::text))
    constraint audience_grants_kind_check CHECK ((kind = ANY (ARRAY['read'::text, 'mint'::text])))
    constraint audience_grants_pkey PRIMARY KEY (audience, kind, member)
    CREATE INDEX audience_grants_member ON public.audience_grants USING btree (lower((member COLLATE "C")))
    CREATE INDEX audience_grants_newest ON public.audience_grants USING btree (created_at DESC)
    CREATE UNIQUE INDEX audience_grants_pkey ON public.audience_grants USING btree (audience, kind, member)

table audit_log
    column audit_id bigint not null generated as identity
    column at timestamp with time zone not null default now()
    column actor character varying(255) not null
    column action text not null
    column target text not null
    column details jsonb not null default '{}'::jsonb
    constraint audit_log_action_check CHECK ((action <> ''::text))
    constraint audit_log_actor_check CHECK (((actor)::text <> ''::text))
    constraint audit_log_pkey PRIMARY KEY (audit_id)
    CREATE UNIQUE INDEX audit_log_pkey ON public.audit_log USING btree (audit_id)
    CREATE INDEX audit_log_target ON public.audit_log USING btree (target, audit_id)
    CREATE TRIGGER audit_log_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse_change()

table blocks
    column block_id uuid not null
    column stream_id uuid not null
    column process_id uuid not null
    column audience character varying(255)
    column signal smallint not null
    column begin_time_ns bigint
    column end_time_ns bigint
    column row_count integer not null
    column payload_bytes integer not null
    column insert_time timestamp with time zone not null default now()
    constraint blocks_audience_check CHECK (((audience)::text ~ '^[A-Za-z0-9_-]+$'::text))
    constraint blocks_payload_bytes_check CHECK ((payload_bytes >= 0))
    constraint blocks_pkey PRIMARY KEY (block_id)
    constraint blocks_row_count_check CHECK ((row_count >= 0))
    constraint blocks_signal_check CHECK (((signal >= 1) AND (signal <= 3)))
    CREATE UNIQUE INDEX blocks_pkey ON public.blocks USING btree (block_id)
    CREATE INDEX blocks_stream_inserted ON public.blocks USING btree (stream_id, insert_time)

table group_members
    column group_name character varying(255) not null
    column member text not null
    column created_at timestamp with time zone not null default now()
    column created_by character varying(255) not null
    constraint group_members_created_by_check CHECK (((created_by)::text <> ''::text))
    constraint group_members_group_name_fkey FOREIGN KEY (group_name) REFERENCES groups(name) ON DELETE CASCADE
    constraint group_members_member_check CHECK (((octet_length(member) <= 512) AND ((member = '*'::text) OR (member ~ '^user:.'::text))))
    constraint group_members_pkey PRIMARY KEY (group_name, member)
    CREATE INDEX group_members_member ON public.group_members USING btree (lower((member COLLATE "C")))
    CREATE UNIQUE INDEX group_members_pkey ON public.group_members USING btree (group_name, member)

table groups
    column name character varying(255) not null
    column created_at timestamp with time zone not null default now()
    column created_by character varying(255) not null
    constraint groups_created_by_check CHECK (((created_by)::text <> ''::text))
    constraint groups_name_check CHECK (((octet_length((name)::text) >= 1) AND (octet_length((name)::text) <= 255)))
    constraint groups_pkey PRIMARY KEY (name)
    CREATE UNIQUE INDEX groups_pkey ON public.groups USING btree (name)

table ingestion_api_keys
    column key_id uuid not null
    column key_hash bytea not null
    column name character varying(255) not null
    column created_at timestamp with time zone not null default now()
    column created_by character varying(255) not null
    column last_used_at timestamp with time zone
    column revoked_at timestamp with time zone
    column revoked_by character varying(255)
    column audience character varying(255) not null
    constraint ingestion_api_keys_audience_check CHECK (((audience)::text ~ '^[A-Za-z0-9_-]+$'::text))
    constraint ingestion_api_keys_check CHECK (((revoked_by IS NULL) OR (revoked_at IS NOT NULL)))
    constraint ingestion_api_keys_created_by_check CHECK (((created_by)::text <> ''::text))
    constraint ingestion_api_keys_key_hash_check CHECK ((octet_length(key_hash) = 32))
    constraint ingestion_api_keys_name_check CHECK (((octet_length((name)::text) >= 1) AND (octet_length((name)::text) <= 255)))
    constraint ingestion_api_keys_pkey PRIMARY KEY (key_id)
    CREATE INDEX ingestion_api_keys_audience ON public.ingestion_api_keys USING btree (audience)
    CREATE UNIQUE INDEX ingestion_api_keys_key_hash ON public.ingestion_api_keys USING btree (key_hash)
    CREATE INDEX ingestion_api_keys_live ON public.ingestion_api_keys USING btree (created_by) WHERE (revoked_at IS NULL)
    CREATE INDEX ingestion_api_keys_live_newest ON public.ingestion_api_keys USING btree (created_at DESC, key_id) WHERE (revoked_at IS NULL)
    CREATE INDEX ingestion_api_keys_newest ON public.ingestion_api_keys USING btree (created_at DESC, key_id)
    CREATE UNIQUE INDEX ingestion_api_keys_pkey ON public.ingestion_api_keys USING btree (key_id)

table ingestion_key_names
    column key_id uuid
    column name character varying(255)
    column audience character varying(255)

table lake_state
    column one boolean not null default true
    column lake_id uuid not null default gen_random_uuid()
    column marked boolean not null default false
    column seen_at timestamp with time zone
    column hold_until timestamp with time zone
    column retention_days integer
    column retention_seen_at timestamp with time zone
    constraint lake_state_one_check CHECK (one)
    constraint lake_state_pkey PRIMARY KEY (one)
    CREATE UNIQUE INDEX lake_state_pkey ON public.lake_state USING btree (one)

table lake_tasks
    column task_id uuid not null default gen_random_uuid()
    column kind text not null
    column request jsonb not null
    column state text not null default 'waiting'::text
    column rows_removed bigint not null default 0
    column objects_rewritten bigint not null default 0
    column objects_removed bigint not null default 0
    column report jsonb
    column error text
    column created_at timestamp with time zone not null default now()
    column created_by character varying(255) not null
    column started_at timestamp with time zone
    column finished_at timestamp with time zone
    constraint lake_tasks_created_by_check CHECK (((created_by)::text <> ''::text))
    constraint lake_tasks_kind_check CHECK ((kind = ANY (ARRAY['erasure'::text, 'check'::text])))
    constraint lake_tasks_objects_removed_check CHECK ((objects_removed >= 0))
    constraint lake_tasks_objects_rewritten_check CHECK ((objects_rewritten >= 0))
    constraint lake_tasks_pkey PRIMARY KEY (task_id)
    constraint lake_tasks_rows_removed_check CHECK ((rows_removed >= 0))
    constraint lake_tasks_state_check CHECK ((state = ANY (ARRAY['waiting'::text, 'running'::text, 'done'::text, 'failed'::text])))
    CREATE INDEX lake_tasks_newest ON public.lake_tasks USING btree (kind, created_at DESC, task_id)
    CREATE INDEX lake_tasks_open ON public.lake_tasks USING btree (created_at) WHERE (state = ANY (ARRAY['waiting'::text, 'running'::text]))
    CREATE UNIQUE INDEX lake_tasks_pkey ON public.lake_tasks USING btree (task_id)
    CREATE TRIGGER lake_tasks_end AFTER UPDATE OF state ON public.lake_tasks FOR EACH ROW WHEN (((old.state = ANY (ARRAY['waiting'::text, 'running'::text])) AND (new.state = ANY (ARRAY['done'::text, 'failed'::text])))) EXECUTE FUNCTION lake_tasks_audit_end()

table lakehouse_partitions
    column partition_id uuid not null
    column view_set text not null
    column audience character varying(255)
    column path text not null
    column file_bytes bigint not null
    column min_time_ns bigint
    column max_time_ns bigint
    column min_insert_time timestamp with time zone not null
    column max_insert_time timestamp with time zone not null
    column level smallint not null
    column process_ids uuid[]
    column created_at timestamp with time zone not null default now()
    column row_count bigint not null
    column schema_hash bytea not null
    column sort_order text not null
    column bucket_seconds integer
    column attribute_columns text[]
    column attribute_names text[]
    column rollup_path text
    column rollup_bytes bigint
    column checksum bigint
    column rollup_checksum bigint
    constraint lakehouse_partitions_audience_check CHECK (((audience)::text ~ '^[A-Za-z0-9_-]+$'::text))
    constraint lakehouse_partitions_bucket_seconds_check CHECK ((bucket_seconds > 0))
    constraint lakehouse_partitions_check CHECK (((min_time_ns IS NULL) = (max_time_ns IS NULL)))
    constraint lakehouse_partitions_check1 CHECK ((min_time_ns <= max_time_ns))
    constraint lakehouse_partitions_check2 CHECK ((min_insert_time <= max_insert_time))
    constraint lakehouse_partitions_checksum_check CHECK (((checksum >= 0) AND (checksum <= '4294967295'::bigint)))
    constraint lakehouse_partitions_file_bytes_check CHECK ((file_bytes > 0))
    constraint lakehouse_partitions_level_check CHECK (((level >= 0) AND (level <= 3)))
    constraint lakehouse_partitions_path_check CHECK ((path <> ''::text))
    constraint lakehouse_partitions_path_key UNIQUE (path)
    constraint lakehouse_partitions_pkey PRIMARY KEY (partition_id)
    constraint lakehouse_partitions_rollup CHECK (((rollup_path IS NULL) = (rollup_bytes IS NULL)))
    constraint lakehouse_partitions_rollup_bytes_check CHECK ((rollup_bytes > 0))
    constraint lakehouse_partitions_rollup_checksum_check CHECK (((rollup_checksum >= 0) AND (rollup_checksum <= '4294967295'::bigint)))
    constraint lakehouse_partitions_rollup_path_check CHECK ((rollup_path <> ''::text))
    constraint lakehouse_partitions_row_count_check CHECK ((row_count >= 0))
    constraint lakehouse_partitions_view_set_check CHECK ((view_set <> ''::text))
    CREATE INDEX lakehouse_partitions_mergeable ON public.lakehouse_partitions USING btree (view_set, audience, level) WHERE (level < 3)
    CREATE UNIQUE INDEX lakehouse_partitions_path_key ON public.lakehouse_partitions USING btree (path)
    CREATE UNIQUE INDEX lakehouse_partitions_pkey ON public.lakehouse_partitions USING btree (partition_id)
    CREATE INDEX lakehouse_partitions_pruning ON public.lakehouse_partitions USING btree (view_set, audience, max_time_ns, min_time_ns)
    CREATE UNIQUE INDEX lakehouse_partitions_rollup_path ON public.lakehouse_partitions USING btree (rollup_path) WHERE (rollup_path IS NOT NULL)
    CREATE TRIGGER lakehouse_partitions_rollup_dropped AFTER UPDATE OF rollup_path ON public.lakehouse_partitions FOR EACH ROW WHEN (((old.rollup_path IS NOT NULL) AND (old.rollup_path IS DISTINCT FROM new.rollup_path))) EXECUTE FUNCTION retire_rollup()
    CREATE TRIGGER lakehouse_partitions_rollup_gone AFTER DELETE ON public.lakehouse_partitions FOR EACH ROW WHEN ((old.rollup_path IS NOT NULL)) EXECUTE FUNCTION retire_rollup()

table lost_partitions
    column partition_id uuid not null
    column path text not null
    column reason text not null
    column lost_at timestamp with time zone not null default now()
    column partition jsonb not null
    constraint lost_partitions_path_key UNIQUE (path)
    constraint lost_partitions_pkey PRIMARY KEY (partition_id)
    constraint lost_partitions_reason_check CHECK ((reason <> ''::text))
    CREATE UNIQUE INDEX lost_partitions_path_key ON public.lost_partitions USING btree (path)
    CREATE UNIQUE INDEX lost_partitions_pkey ON public.lost_partitions USING btree (partition_id)

table processes
    column process_id uuid not null
    column audience character varying(255)
    column service_namespace text
    column service_name text
    column service_instance_id text
    column service_version text
    column host_id text
    column host_name text
    column process_pid bigint
    column executable text
    column username text
    column sdk_name text
    column sdk_language text
    column sdk_version text
    column start_time timestamp with time zone
    column insert_time timestamp with time zone not null default now()
    column properties jsonb not null
    constraint processes_audience_check CHECK (((audience)::text ~ '^[A-Za-z0-9_-]+$'::text))
    constraint processes_pkey PRIMARY KEY (process_id)
    CREATE UNIQUE INDEX processes_pkey ON public.processes USING btree (process_id)

table query_denials
    column rule_id uuid not null
    column match_expr text not null
    column reason text not null
    column created_at timestamp with time zone not null default now()
    column created_by character varying(255) not null
    constraint query_denials_created_by_check CHECK (((created_by)::text <> ''::text))
    constraint query_denials_match_expr_check CHECK ((match_expr <> ''::text))
    constraint query_denials_pkey PRIMARY KEY (rule_id)
    CREATE UNIQUE INDEX query_denials_pkey ON public.query_denials USING btree (rule_id)

table query_log
    column query_id uuid not null
    column time timestamp with time zone not null
    column caller text not null
    column client text not null
    column sql text not null
    column sql_hash text not null
    column fingerprint text
    column duration_ms double precision not null
    column row_count bigint not null
    column bytes bigint not null
    column partitions integer not null
    column peak_memory_bytes bigint
    column outcome text not null
    column engine text
    column engine_reason text
    constraint query_log_bytes_check CHECK ((bytes >= 0))
    constraint query_log_duration_ms_check CHECK ((duration_ms >= (0)::double precision))
    constraint query_log_outcome_check CHECK ((outcome <> ''::text))
    constraint query_log_partitions_check CHECK ((partitions >= 0))
    constraint query_log_pkey PRIMARY KEY (query_id)
    constraint query_log_row_count_check CHECK ((row_count >= 0))
    CREATE UNIQUE INDEX query_log_pkey ON public.query_log USING btree (query_id)
    CREATE INDEX query_log_time ON public.query_log USING btree ("time")

table retention_overrides
    column view_set text not null
    column audience character varying(255)
    column days integer not null
    column updated_at timestamp with time zone not null default now()
    column updated_by character varying(255) not null
    constraint retention_overrides_audience_check CHECK (((audience)::text ~ '^[A-Za-z0-9_-]+$'::text))
    constraint retention_overrides_days_check CHECK (((days >= 0) AND (days <= 36500)))
    constraint retention_overrides_updated_by_check CHECK (((updated_by)::text <> ''::text))
    constraint retention_overrides_view_set_check CHECK ((view_set <> ''::text))
    CREATE UNIQUE INDEX retention_overrides_target ON public.retention_overrides USING btree (view_set, COALESCE(audience, ''::character varying))

table retired_objects
    column path text not null
    column file_bytes bigint not null
    column retired_at timestamp with time zone not null default now()
    constraint retired_objects_pkey PRIMARY KEY (path)
    CREATE UNIQUE INDEX retired_objects_pkey ON public.retired_objects USING btree (path)
    CREATE INDEX retired_objects_retired_at ON public.retired_objects USING btree (retired_at)

table schema_version
    column version integer not null
    column name text not null
    column applied_at timestamp with time zone not null default now()
    constraint schema_version_pkey PRIMARY KEY (version)
    constraint schema_version_version_check CHECK ((version >= 1))
    CREATE UNIQUE INDEX schema_version_pkey ON public.schema_version USING btree (version)

table streams
    column stream_id uuid not null
    column process_id uuid not null
    column audience character varying(255)
    column signal smallint not null
    column insert_time timestamp with time zone not null default now()
    column format text not null default 'otlp'::text
    constraint streams_audience_check CHECK (((audience)::text ~ '^[A-Za-z0-9_-]+$'::text))
    constraint streams_format_check CHECK ((format <> ''::text))
    constraint streams_pkey PRIMARY KEY (stream_id)
    constraint streams_signal_check CHECK (((signal >= 1) AND (signal <= 3)))
    CREATE UNIQUE INDEX streams_pkey ON public.streams USING btree (stream_id)
    CREATE INDEX streams_process_id ON public.streams USING btree (process_id)

CREATE OR REPLACE FUNCTION public.audit_log_refuse_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    raise exception 'audit_log is append-only: % is refused', tg_op
        using errcode = 'insufficient_privilege';
end
$function$


CREATE OR REPLACE FUNCTION public.drop_key_usage(before timestamp with time zone)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
 SET lock_timeout TO '2s'
AS $function$
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
$function$


CREATE OR REPLACE FUNCTION public.lake_tasks_audit_end()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
AS $function$
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
$function$


CREATE OR REPLACE FUNCTION public.prepare_key_usage()
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'pg_catalog', 'public'
 SET lock_timeout TO '2s'
 SET "TimeZone" TO 'UTC'
AS $function$
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
$function$


CREATE OR REPLACE FUNCTION public.retire_rollup()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'pg_catalog', 'public'
AS $function$
begin
    insert into public.retired_objects (path, file_bytes) values (old.rollup_path, old.rollup_bytes)
    on conflict (path) do nothing;
    return null;
end
$function$

