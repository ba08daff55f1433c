-- What the analytics server shows of ingestion keys beside their usage. It reads this view with its owner's rights, and
-- has none on the table.
create view ingestion_key_names as select key_id, name, audience from ingestion_api_keys;
