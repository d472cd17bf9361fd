-- How far the servers have counted for their metrics, all of them together: what one has taken, no other counts.
CREATE TABLE headgate_counted (
    one     integer PRIMARY KEY CHECK (one = 1),
    place   text NOT NULL, -- the cursor behind the events that were taken
    attempt integer NOT NULL, -- the last attempt to deliver a callback that was taken
    at      integer NOT NULL -- when a server last asked
) STRICT;
-- What listeners did with events since a server last took it for its metrics.
CREATE TABLE headgate_uncounted (
    listener text NOT NULL,
    kind     text NOT NULL,
    outcome  text NOT NULL,
    count    integer NOT NULL,
    PRIMARY KEY (listener, kind, outcome)
) STRICT, WITHOUT ROWID;
