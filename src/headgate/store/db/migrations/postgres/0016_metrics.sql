-- How far the servers have counted for their metrics, all of them together: what one has taken, no other counts.
CREATE TABLE headgate_counted (
    one     integer PRIMARY KEY CHECK (one = 1),
    place   text NOT NULL, -- the cursor behind the events that were taken
    attempt bigint NOT NULL, -- the last attempt to deliver a callback that was taken
    at      timestamptz NOT NULL -- when a server last asked
);
-- What listeners did with events since a server last took it for its metrics.
CREATE TABLE headgate_uncounted (
    listener text NOT NULL,
    kind     text NOT NULL,
    outcome  text NOT NULL,
    count    bigint NOT NULL,
    PRIMARY KEY (listener, kind, outcome)
);
