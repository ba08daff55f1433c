-- Attributes of an object: which of them are columns of their own, and which there are at all.

-- Names of attributes that the object has as columns `attr.<name>`; null: none.
alter table lakehouse_partitions add column attribute_columns text[];
-- Names of all attributes that its rows have; null: not known, or too many.
alter table lakehouse_partitions add column attribute_names text[];
