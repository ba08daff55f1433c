-- Emails compare without regard to the case of ASCII letters only: under other collations lower() makes one
-- letter of several, such as k of the Kelvin sign, and so one person of two.

drop index audience_grants_member;
create index audience_grants_member on audience_grants (lower(member collate "C"));

drop index group_members_member;
create index group_members_member on group_members (lower(member collate "C"));
