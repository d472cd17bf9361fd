-- Who follows the feed across restarts: how far each has come, and which process has it for now.
CREATE TABLE headgate_subscription (
    name        text PRIMARY KEY,
    place       text NOT NULL, -- the cursor behind what was handled
    floor       integer NOT NULL, -- the first event that may not have been handled: retention keeps it and all that follow
    tries       integer NOT NULL DEFAULT 0, -- how often what comes next was begun and not ended
    holder      text,
    lease_until integer,
    used_at     integer NOT NULL,
    handled     integer NOT NULL DEFAULT 0,
    failed      integer NOT NULL DEFAULT 0,
    skipped     integer NOT NULL DEFAULT 0
) STRICT;

-- What people did, and what the system did by itself. What executors write, and the way of a task to its start, is never
-- among it: submits, claims and settles pay nothing for it.
CREATE INDEX headgate_task_event_act ON headgate_task_event (at, id)
    WHERE task_id IS NULL OR (
          kind IN ('cancel_requested', 'cancelled', 'pause_requested', 'paused', 'resumed', 'prioritized', 'rescheduled',
                   'retried', 'resolved', 'discarded', 'redelivery_asked', 'undeliverable', 'lease_lost', 'overdue',
                   'compensated', 'failed', 'dead_lettered')
          AND substr(actor, 1, 7) <> 'worker:' AND substr(actor, 1, 6) <> 'agent:');
