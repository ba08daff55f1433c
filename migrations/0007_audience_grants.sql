-- Who may read an audience and who may mint keys that write it. Members: user:<email>, group:<name>,
-- * for everybody, and for reading key:<key_id> of an analytics key. A revoked grant is a deleted row.

create table audience_grants (
    audience varchar(255) not null check (audience ~ '^[A-Za-z0-9_-]+$'),
    kind text not null check (kind in ('read', 'mint')),
    member text not null check (
        octet_length(member) <= 512
        and (
            member = '*'
            or member ~ '^(user|group):.'
            or (
                kind = 'read'
                and member ~ '^key:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
            )
        )
    ),
    created_at timestamptz not null default now(),
    created_by varchar(255) not null check (created_by <> ''),
    primary key (audience, kind, member)
);

-- emails compare without case
create index audience_grants_member on audience_grants (lower(member));
create index audience_grants_newest on audience_grants (created_at desc);

insert into audience_grants (audience, kind, member, created_by)
values ('public', 'read', '*', 'migration');
