-- Of a resource that a handler named and nobody set: whose task that was.
ALTER TABLE headgate_resource ADD COLUMN tenant_id integer;
