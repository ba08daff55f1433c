-- The write audience of an ingestion key. Keys from before this version wrote what everybody could
-- read, which is what `public` means. No default: whoever inserts a key says its audience.

alter table ingestion_api_keys
    add column audience varchar(255) check (audience ~ '^[A-Za-z0-9_-]+$');

update ingestion_api_keys set audience = 'public';

alter table ingestion_api_keys
    alter column audience set not null;

-- whether an audience exists already, when somebody claims it
create index ingestion_api_keys_audience on ingestion_api_keys (audience);
