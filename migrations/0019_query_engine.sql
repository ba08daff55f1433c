-- Where a query ran, and why there. Null: there was no cluster to choose, or it was refused before.

alter table query_log add column engine text;
alter table query_log add column engine_reason text;
