-- What the web application keeps: screens in folders with their versions, data sources, maps. The web server
-- migrates this schema itself.

-- Where servers have a role of their own, every login of the web server uses the tables that one of them made.
do $$
begin
    if exists (
        select from pg_roles
        where rolname = 'telemetry_web' and pg_has_role(current_user, oid, 'member')
            and has_database_privilege(oid, current_database(), 'create')
    ) then
        set local role telemetry_web;
    end if;
end
$$;

create schema web;

create table web.schema_version (
    version integer primary key check (version >= 1),
    name text not null,
    applied_at timestamptz not null default now()
);

create table web.folders (
    name varchar(255) primary key check (name <> ''),
    created_at timestamptz not null default now(),
    created_by varchar(255) not null
);

create table web.screens (
    name varchar(255) primary key check (name <> ''),
    -- null: in none
    folder varchar(255) references web.folders (name) on update cascade,
    -- text of a JSON object, as it was sent
    config json not null,
    version integer not null check (version >= 1),
    -- who made it, and may change it
    owner varchar(255) not null check (owner <> ''),
    created_at timestamptz not null,
    updated_at timestamptz not null,
    updated_by varchar(255) not null
);

create index screens_folder on web.screens (folder);
create index screens_owner on web.screens (owner);

-- Every version that is kept, the present one included.
create table web.screen_versions (
    name varchar(255) not null references web.screens (name) on delete cascade,
    version integer not null,
    folder varchar(255),
    config json not null,
    saved_at timestamptz not null,
    saved_by varchar(255) not null,
    primary key (name, version)
);

create table web.data_sources (
    name varchar(255) primary key check (name <> ''),
    uri text not null check (uri <> ''),
    is_default boolean not null,
    updated_at timestamptz not null default now(),
    updated_by varchar(255) not null
);

-- at most one
create unique index data_sources_default on web.data_sources (is_default) where is_default;

create table web.maps (
    file varchar(255) primary key check (file <> ''),
    -- in the object store
    path text not null unique,
    bytes bigint not null check (bytes > 0),
    updated_at timestamptz not null default now(),
    updated_by varchar(255) not null
);
