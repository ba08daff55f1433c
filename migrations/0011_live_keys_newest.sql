-- Lists of live keys, newest first: without these, a page of them reads past every revoked key.

create index ingestion_api_keys_live_newest on ingestion_api_keys (created_at desc, key_id)
    where revoked_at is null;
create index analytics_api_keys_live_newest on analytics_api_keys (created_at desc, key_id)
    where revoked_at is null;
