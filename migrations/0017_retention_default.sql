-- The default that maintenance works with, so that whoever asks the database can say how long rows are kept.
alter table lake_state
    -- SVC_RETENTION_DAYS; null: for good
    add column retention_days integer,
    -- when maintenance last said so; null: never since this column is there
    add column retention_seen_at timestamptz;
