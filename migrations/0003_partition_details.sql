-- What a reader can know about an object without opening it. Objects from before this version count as
-- unsorted and of unknown schema.

alter table lakehouse_partitions
    add column row_count bigint not null default 0 check (row_count >= 0),
    add column schema_hash bytea not null default '',
    add column sort_order text not null default '';

alter table lakehouse_partitions
    alter column row_count drop default,
    alter column schema_hash drop default,
    alter column sort_order drop default;
