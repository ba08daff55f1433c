-- The last version of a screen that was deleted: one that is made again under its name goes on from there. Else who
-- still has the old one open could overwrite the new one, as if it were of the version that is open.

-- Whose the other tables are.
do $$
begin
    if exists (
        select from pg_namespace join pg_roles on pg_roles.oid = nspowner
        where nspname = 'web' and rolname = 'telemetry_web' and pg_has_role(current_user, nspowner, 'member')
    ) then
        set local role telemetry_web;
    end if;
end
$$;

create table web.deleted_screens (
    name varchar(255) primary key,
    version integer not null check (version >= 1),
    deleted_at timestamptz not null default now()
);

create index deleted_screens_newest on web.deleted_screens (deleted_at desc);
