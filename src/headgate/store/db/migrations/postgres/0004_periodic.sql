-- Schedules, what their ticks did, and what they began that still goes on.

CREATE TABLE periodic_task (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id        bigint NOT NULL,
    type             text NOT NULL,
    creator          bigint NOT NULL,
    cron_expressions text NOT NULL,
    timezone         text NOT NULL,
    status           text NOT NULL CHECK (status IN ('new', 'online', 'offline')),
    log              text NOT NULL CHECK (log IN ('none', 'trigger_log', 'trans_log')),
    category         text, -- NULL: the type's
    ext              text NOT NULL,
    missed           text NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    overlap          text NOT NULL CHECK (overlap IN ('allow', 'skip', 'queue')),
    http             text, -- NULL: its ticks make tasks
    options          text NOT NULL,
    code             text UNIQUE, -- NULL: a person made it
    edited           boolean NOT NULL DEFAULT false,
    version          integer NOT NULL DEFAULT 1,
    next_tick        timestamptz,
    done_until       timestamptz,
    create_date      timestamptz NOT NULL,
    update_date      timestamptz NOT NULL,
    CHECK (status = 'online' OR next_tick IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX periodic_task_due ON periodic_task (next_tick, id) WHERE status = 'online';
CREATE INDEX periodic_task_tenant ON periodic_task (tenant_id, id);

CREATE TABLE periodic_task_log (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    periodic_task_id bigint NOT NULL,
    tenant_id        bigint NOT NULL,
    result           text NOT NULL CHECK (result IN ('executing', 'success', 'failure')),
    error_info       text,
    tick             timestamptz, -- NULL: by hand
    task_id          bigint,
    create_date      timestamptz NOT NULL,
    update_date      timestamptz NOT NULL,
    CHECK (result = 'failure' OR error_info IS NULL)
);
CREATE INDEX periodic_task_log_of ON periodic_task_log (periodic_task_id, id);
CREATE UNIQUE INDEX periodic_task_log_tick ON periodic_task_log (periodic_task_id, tick) WHERE tick IS NOT NULL;

CREATE TABLE periodic_run (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    periodic_task_id bigint NOT NULL,
    tick             timestamptz,
    task_id          bigint, -- NULL: a call
    log_id           bigint,
    caller           uuid, -- who makes the call; NULL: nobody yet
    CHECK (task_id IS NULL OR caller IS NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
CREATE INDEX periodic_run_of ON periodic_run (periodic_task_id, id);
CREATE INDEX periodic_run_call ON periodic_run (id) WHERE task_id IS NULL;
