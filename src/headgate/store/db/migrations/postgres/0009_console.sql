-- Who is signed in at the console: a key was changed for a token, of which a hash is kept.
CREATE TABLE session (
    digest       text PRIMARY KEY,
    key_id       bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX session_expires ON session (expires_at);

-- What happened in each stretch of time, and how it stood at its end: for people's charts. A few thousand rows at most.
CREATE TABLE series (
    step      integer NOT NULL, -- seconds
    at        timestamptz NOT NULL, -- when the stretch begins
    mark      bigint NOT NULL, -- the last event that was counted
    submitted bigint NOT NULL,
    started   bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed    bigint NOT NULL,
    retried   bigint NOT NULL,
    cancelled bigint NOT NULL,
    wait_p50  double precision, -- seconds, from when it was due to its start
    wait_p95  double precision,
    run_p50   double precision,
    run_p95   double precision,
    waiting   bigint,
    later     bigint,
    running   bigint,
    dead      bigint,
    oldest    double precision, -- seconds
    PRIMARY KEY (step, at)
);
