-- How wide the time buckets are that a partition was merged into; null for partitions as ingested.

alter table lakehouse_partitions
    add column bucket_seconds integer check (bucket_seconds > 0);
