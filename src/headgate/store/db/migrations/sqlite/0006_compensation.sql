-- Starts that agents have to confirm. `agent_start` is an agent's last one: it holds up the next for some seconds.
CREATE TABLE agent_start (
    agent_id   text NOT NULL,
    tenant_id  integer NOT NULL,
    started_at integer NOT NULL,
    seconds    real NOT NULL,
    PRIMARY KEY (agent_id, tenant_id)
) STRICT, WITHOUT ROWID;

-- How far the search for lost starts is: one row, so that all processes that run it poll as one.
CREATE TABLE compensation (
    one        integer PRIMARY KEY CHECK (one = 1),
    multiplier integer NOT NULL CHECK (multiplier > 0),
    skips      integer NOT NULL CHECK (skips >= 0),
    since      integer NOT NULL, -- the wait for the next poll counts from here
    last_poll  integer
) STRICT;

-- Which executions a claim was answered with: a task may have another one by the time the claim is repeated.
ALTER TABLE claim_answer ADD COLUMN exec_ids text;
