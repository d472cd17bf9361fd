-- What is known of attempts that failed, besides what the audit says of every attempt: the last of each task.
CREATE TABLE headgate_task_attempt (
    task_id       integer NOT NULL,
    attempt       integer NOT NULL,
    reason        text NOT NULL,
    error         text NOT NULL,
    cpu_seconds   real,
    memory_bytes  integer,
    read_bytes    integer,
    written_bytes integer,
    PRIMARY KEY (task_id, attempt)
) STRICT;
