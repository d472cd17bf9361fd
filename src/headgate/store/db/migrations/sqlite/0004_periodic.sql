-- Schedules, what their ticks did, and what they began that still goes on.

CREATE TABLE periodic_task (
    id               integer PRIMARY KEY AUTOINCREMENT,
    tenant_id        integer NOT NULL,
    type             text NOT NULL,
    creator          integer NOT NULL,
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
    edited           integer NOT NULL DEFAULT 0,
    version          integer NOT NULL DEFAULT 1,
    next_tick        integer,
    done_until       integer,
    create_date      integer NOT NULL,
    update_date      integer NOT NULL,
    CHECK (status = 'online' OR next_tick IS NULL)
) STRICT;
CREATE INDEX periodic_task_due ON periodic_task (next_tick, id) WHERE status = 'online';
CREATE INDEX periodic_task_tenant ON periodic_task (tenant_id, id);

CREATE TABLE periodic_task_log (
    id               integer PRIMARY KEY AUTOINCREMENT,
    periodic_task_id integer NOT NULL,
    tenant_id        integer NOT NULL,
    result           text NOT NULL CHECK (result IN ('executing', 'success', 'failure')),
    error_info       text,
    tick             integer, -- NULL: by hand
    task_id          integer,
    create_date      integer NOT NULL,
    update_date      integer NOT NULL,
    CHECK (result = 'failure' OR error_info IS NULL)
) STRICT;
CREATE INDEX periodic_task_log_of ON periodic_task_log (periodic_task_id, id);
CREATE UNIQUE INDEX periodic_task_log_tick ON periodic_task_log (periodic_task_id, tick) WHERE tick IS NOT NULL;

CREATE TABLE periodic_run (
    id               integer PRIMARY KEY AUTOINCREMENT,
    periodic_task_id integer NOT NULL,
    tick             integer,
    task_id          integer, -- NULL: a call
    log_id           integer,
    caller           text, -- who makes the call; NULL: nobody yet
    CHECK (task_id IS NULL OR caller IS NULL)
) STRICT;
CREATE INDEX periodic_run_of ON periodic_run (periodic_task_id, id);
CREATE INDEX periodic_run_call ON periodic_run (id) WHERE task_id IS NULL;
