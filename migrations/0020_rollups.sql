-- Roll-ups: a small object beside a merged one, which counts its rows. It is published and goes with the partition.

-- Relative to the object store's root; null: there is none.
alter table lakehouse_partitions
    add column rollup_path text check (rollup_path <> ''),
    add column rollup_bytes bigint check (rollup_bytes > 0),
    add constraint lakehouse_partitions_rollup check ((rollup_path is null) = (rollup_bytes is null));

create unique index lakehouse_partitions_rollup_path on lakehouse_partitions (rollup_path) where rollup_path is not null;

-- Whoever takes a partition out of the catalogue, its roll-up is retired in the same transaction.
create function retire_rollup() returns trigger
language plpgsql set search_path = pg_catalog, public as $$
begin
    insert into public.retired_objects (path, file_bytes) values (old.rollup_path, old.rollup_bytes)
    on conflict (path) do nothing;
    return null;
end
$$;
revoke execute on function retire_rollup() from public;

create trigger lakehouse_partitions_rollup_gone after delete on lakehouse_partitions
    for each row when (old.rollup_path is not null) execute function retire_rollup();
create trigger lakehouse_partitions_rollup_dropped after update of rollup_path on lakehouse_partitions
    for each row when (old.rollup_path is not null and old.rollup_path is distinct from new.rollup_path)
    execute function retire_rollup();
