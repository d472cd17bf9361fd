-- Who is signed in at the console: a key was changed for a token, of which a hash is kept.
CREATE TABLE session (
    digest       text PRIMARY KEY,
    key_id       integer NOT NULL,
    created_at   integer NOT NULL,
    last_used_at integer NOT NULL,
    expires_at   integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_expires ON session (expires_at);

-- What happened in each stretch of time, and how it stood at its end: for people's charts. A few thousand rows at most.
CREATE TABLE series (
    step      integer NOT NULL, -- seconds
    at        integer NOT NULL, -- when the stretch begins
    mark      integer NOT NULL, -- the last event that was counted
    submitted integer NOT NULL,
    started   integer NOT NULL,
    succeeded integer NOT NULL,
    failed    integer NOT NULL,
    retried   integer NOT NULL,
    cancelled integer NOT NULL,
    wait_p50  real, -- seconds, from when it was due to its start
    wait_p95  real,
    run_p50   real,
    run_p95   real,
    waiting   integer,
    later     integer,
    running   integer,
    dead      integer,
    oldest    real, -- seconds
    PRIMARY KEY (step, at)
) STRICT, WITHOUT ROWID;
