-- What is owed to receivers: a row per callback, written in the transition's own transaction. `due_at` is when it is to
-- be sent, or, while somebody is sending it under a lease, when it may be taken for forgotten.
CREATE TABLE callback_delivery (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    webhook_id   text NOT NULL,
    task_id      bigint NOT NULL,
    tenant_id    bigint NOT NULL,
    type         text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('success', 'error')),
    seq          integer NOT NULL, -- of the transition that asks for it
    status       text NOT NULL CHECK (status IN ('pending', 'delivered', 'undeliverable', 'dropped')),
    attempts     integer NOT NULL DEFAULT 0, -- since it was last asked for
    due_at       timestamptz NOT NULL,
    lease        text,
    host         text, -- that it was last sent to, and what came of it
    last_status  integer,
    last_error   text,
    error_info   text, -- as it was then: a task that is tried again fails differently
    created_at   timestamptz NOT NULL,
    update_date  timestamptz NOT NULL,
    delivered_at timestamptz,
    CHECK (lease IS NULL OR status = 'pending')
) WITH (
    fillfactor = 75, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
    autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 10000
);
CREATE INDEX callback_delivery_due ON callback_delivery (type, kind, due_at, id) WHERE status = 'pending';
CREATE INDEX callback_delivery_status ON callback_delivery (status, id);
CREATE INDEX callback_delivery_task ON callback_delivery (task_id, id);

CREATE TABLE callback_attempt (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery_id bigint NOT NULL,
    lease       text NOT NULL, -- that it was sent under
    task_id     bigint NOT NULL,
    at          timestamptz NOT NULL,
    host        text NOT NULL,
    status      integer, -- NULL: there was no answer
    seconds     double precision NOT NULL,
    error       text NOT NULL,
    body        text NOT NULL,
    UNIQUE (delivery_id, lease)
);
CREATE INDEX callback_attempt_task ON callback_attempt (task_id, id);
