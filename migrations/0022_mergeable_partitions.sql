-- What maintenance looks at every few seconds: partitions that may be merged, which stay few, however many there are of
-- the last level.
create index lakehouse_partitions_mergeable on lakehouse_partitions (view_set, audience, level) where level < 3;
