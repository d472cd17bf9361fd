-- What is known of attempts that failed, besides what the audit says of every attempt: the last of each task.
CREATE TABLE headgate_task_attempt (
    task_id       bigint NOT NULL,
    attempt       integer NOT NULL,
    reason        text NOT NULL,
    error         text NOT NULL,
    cpu_seconds   double precision,
    memory_bytes  bigint,
    read_bytes    bigint,
    written_bytes bigint,
    PRIMARY KEY (task_id, attempt)
);
