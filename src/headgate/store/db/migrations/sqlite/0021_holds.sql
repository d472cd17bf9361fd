-- Resources that running handlers hold for a part of their run, and those that wait for one, in the order of asking.
-- A row counts only while its task is executed under its exec_id; what is left of ended executions is swept.
CREATE TABLE headgate_hold (
    id          integer PRIMARY KEY AUTOINCREMENT,
    resource    text NOT NULL,
    task_id     integer NOT NULL,
    exec_id     text NOT NULL,
    tenant_id   integer NOT NULL,
    held        integer NOT NULL,
    newest_task integer NOT NULL, -- when it asked: of tasks in the queue, those up to this one came first
    since       integer NOT NULL, -- it waits, then holds
    UNIQUE (task_id, exec_id, resource)
) STRICT;
CREATE INDEX headgate_hold_resource ON headgate_hold (resource, id);
