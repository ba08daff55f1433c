-- How the blocks of a stream were encoded when they came in.

alter table streams
    add column format text not null default 'otlp' check (format <> '');
