-- Delivery queues (the callbacks of one kind of one type) that are held: their receiver rests after failures, or the
-- policy allows nothing to be sent there. A row is written when a hold begins and removed when the receiver answers.
CREATE TABLE headgate_callback_hold (
    type    text NOT NULL,
    kind    text NOT NULL CHECK (kind IN ('success', 'error')),
    host    text NOT NULL,
    until   timestamptz NOT NULL, -- when it is tried again
    blocked boolean NOT NULL, -- by policy; else the receiver rests
    reason  text NOT NULL,
    PRIMARY KEY (type, kind)
);

-- When a duty that one process does for all last said that it runs.
CREATE TABLE headgate_duty (
    name text PRIMARY KEY,
    at   timestamptz NOT NULL
);
