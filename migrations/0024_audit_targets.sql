-- The audit is read by its targets, newest entries first. It is listed by the primary key, not by time.
create index audit_log_target on audit_log (target, audit_id);
drop index audit_log_newest;
