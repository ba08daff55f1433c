-- CRC-32 of objects, by which a check of the lake knows bytes that have changed. Null: there is none, or not yet.
alter table lakehouse_partitions
    add column checksum bigint check (checksum between 0 and 4294967295),
    add column rollup_checksum bigint check (rollup_checksum between 0 and 4294967295);
