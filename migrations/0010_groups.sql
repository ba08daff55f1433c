-- Local groups. Membership in `admins` makes an administrator; it starts with whom the runner names
-- (SVC_BOOTSTRAP_ADMIN), else with everybody in it, until an administrator replaces the wildcard. Removed rows are
-- deleted.

create table groups (
    name varchar(255) primary key check (octet_length(name) between 1 and 255),
    created_at timestamptz not null default now(),
    created_by varchar(255) not null check (created_by <> '')
);

create table group_members (
    group_name varchar(255) not null references groups (name) on delete cascade,
    member text not null check (
        octet_length(member) <= 512 and (member = '*' or member ~ '^user:.')
    ),
    created_at timestamptz not null default now(),
    created_by varchar(255) not null check (created_by <> ''),
    primary key (group_name, member)
);

create index group_members_member on group_members (lower(member));

insert into groups (name, created_by) values ('admins', 'migration');
insert into group_members (group_name, member, created_by)
values (
    'admins',
    coalesce(nullif(lower(current_setting('telemetry.bootstrap_admin', true) collate "C"), ''), '*'),
    'migration'
);
