-- How long tasks of a type took lately in a lane: JSON, [[seconds, attempts], …], newest first; `at` is when the newest
-- of them finished.
CREATE TABLE run_time (
    lane   text NOT NULL,
    type   text NOT NULL,
    recent text NOT NULL,
    at     timestamptz NOT NULL,
    PRIMARY KEY (lane, type)
);

-- The long lines, as last sampled: how many of a stream are queued at a priority (the extremes together), and their ids.
CREATE TABLE sample_line (
    at        timestamptz NOT NULL,
    stream_id bigint NOT NULL,
    priority  bigint NOT NULL,
    count     bigint NOT NULL,
    first_id  bigint NOT NULL,
    last_id   bigint NOT NULL,
    PRIMARY KEY (stream_id, priority)
);
