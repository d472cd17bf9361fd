-- How long tasks of a type took lately in a lane: JSON, [[seconds, attempts], …], newest first; `at` is when the newest
-- of them finished.
CREATE TABLE run_time (
    lane   text NOT NULL,
    type   text NOT NULL,
    recent text NOT NULL,
    at     integer NOT NULL,
    PRIMARY KEY (lane, type)
) STRICT;

-- The long lines, as last sampled: how many of a stream are queued at a priority (the extremes together), and their ids.
CREATE TABLE sample_line (
    at        integer NOT NULL,
    stream_id integer NOT NULL,
    priority  integer NOT NULL,
    count     integer NOT NULL,
    first_id  integer NOT NULL,
    last_id   integer NOT NULL,
    PRIMARY KEY (stream_id, priority)
) STRICT;

-- The last task made under a key by a submit that is unique for a while, or debounced. Its row is what such submits lock.
CREATE TABLE submit_key (
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    key       text NOT NULL,
    task_id   integer,
    at        integer NOT NULL,
    until     integer NOT NULL, -- then nobody asks for it any more
    PRIMARY KEY (tenant_id, type, key)
) STRICT;
CREATE INDEX submit_key_until ON submit_key (until);

-- What is removed goes by how it ended: those that are kept longer are not walked each time. Lists, which ask for no
-- time, are not to take it for a way by status.
CREATE INDEX task_his_ended ON task_his (status, finished_at, id) WHERE finished_at IS NOT NULL;

-- What a task's last execution used of its machine, where that can be told of it alone.
CREATE TABLE task_usage (
    task_id       integer PRIMARY KEY,
    attempt       integer NOT NULL,
    cpu_seconds   real NOT NULL,
    memory_bytes  integer,
    read_bytes    integer,
    written_bytes integer
) STRICT;
