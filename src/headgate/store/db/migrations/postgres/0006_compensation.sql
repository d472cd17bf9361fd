-- Starts that agents have to confirm. `agent_start` is an agent's last one: it holds up the next for some seconds.
CREATE TABLE agent_start (
    agent_id   text NOT NULL,
    tenant_id  bigint NOT NULL,
    started_at timestamptz NOT NULL,
    seconds    double precision NOT NULL,
    PRIMARY KEY (agent_id, tenant_id)
);

-- How far the search for lost starts is: one row, so that all processes that run it poll as one.
CREATE TABLE compensation (
    one        integer PRIMARY KEY CHECK (one = 1),
    multiplier integer NOT NULL CHECK (multiplier > 0),
    skips      integer NOT NULL CHECK (skips >= 0),
    since      timestamptz NOT NULL, -- the wait for the next poll counts from here
    last_poll  timestamptz
);

-- Which executions a claim was answered with: a task may have another one by the time the claim is repeated.
ALTER TABLE claim_answer ADD COLUMN exec_ids text;
