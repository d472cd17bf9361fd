-- The engine. Times are microseconds since the epoch, booleans 0 and 1, ext and result JSON text.

CREATE TABLE task (
    id                 integer PRIMARY KEY AUTOINCREMENT,
    tenant_id          integer NOT NULL,
    type               text NOT NULL,
    creator            integer NOT NULL,
    start_time         integer NOT NULL,
    status             text NOT NULL,
    executing_deadline integer,
    exec_id            text,
    error_count        integer NOT NULL DEFAULT 0,
    error_info         text,
    category           text NOT NULL,
    remark             text,
    ext                text NOT NULL,
    result             text,
    exec_time          real,
    create_date        integer NOT NULL,
    update_date        integer NOT NULL,
    name               text,
    lane               text NOT NULL,
    priority           integer NOT NULL,
    mutex              text,
    rate_key           text,
    agent_id           text,
    unique_key         text,
    parent_id          integer,
    root_id            integer,
    retry_of           integer,
    correlation_id     text,
    attempt            integer NOT NULL DEFAULT 0,
    lost_count         integer NOT NULL DEFAULT 0,
    progress           text,
    worker_id          integer,
    scheduling_time    integer,
    started_at         integer,
    finished_at        integer,
    max_error_count    integer,
    timeout_seconds    real,
    cancel_requested   integer NOT NULL DEFAULT 0,
    pause_requested    integer NOT NULL DEFAULT 0,
    has_children       integer NOT NULL DEFAULT 0,
    skip_callback      integer NOT NULL DEFAULT 0,
    seq                integer NOT NULL DEFAULT 1,
    stream_id          integer NOT NULL,
    uses               text,
    claim_no           integer NOT NULL DEFAULT 0,
    CHECK ((status IN ('scheduling', 'running')) = (exec_id IS NOT NULL)),
    CHECK ((status = 'succeeded' OR status = 'failed' OR status = 'cancelled' OR status = 'partial' OR status = 'resolved')
           = (finished_at IS NOT NULL)),
    CHECK (status <> 'blocked' OR mutex IS NOT NULL)
) STRICT;

-- Every index is paid for by every submit, claim and settle: there is one only where a claim or a duty would
-- otherwise read more than it takes. A list of three or more words that is looked at first costs 5 µs a row.
CREATE INDEX task_ready ON task (stream_id, priority, id) WHERE status = 'queued';
CREATE INDEX task_ready_creator ON task (stream_id, creator, priority, id) WHERE creator <> 0 AND status = 'queued';
CREATE INDEX task_timed ON task (start_time, id) WHERE status IN ('pending', 'retrying');
CREATE INDEX task_held ON task (lane, claim_no) WHERE status IN ('scheduling', 'running');
CREATE INDEX task_using ON task (claim_no) WHERE uses IS NOT NULL AND status IN ('scheduling', 'running');
CREATE UNIQUE INDEX task_mutex ON task (tenant_id, mutex) WHERE mutex IS NOT NULL AND exec_id IS NOT NULL;
CREATE INDEX task_line ON task (tenant_id, mutex, status, stream_id, priority, id)
    WHERE mutex IS NOT NULL AND status IN ('queued', 'blocked', 'waiting');
CREATE INDEX task_family ON task (root_id, status, mutex, stream_id, priority, id) WHERE root_id IS NOT NULL;
CREATE UNIQUE INDEX task_unique ON task (tenant_id, type, unique_key) WHERE unique_key IS NOT NULL
    AND status IN ('pending', 'blocked', 'queued', 'scheduling', 'running', 'waiting', 'paused', 'retrying', 'notifying');
CREATE INDEX task_waiting ON task (id) WHERE has_children AND status = 'waiting';
CREATE INDEX task_stopped ON task (status, id) WHERE status IN ('dead', 'notifying');
CREATE INDEX task_finished ON task (finished_at, id) WHERE finished_at IS NOT NULL;

CREATE TABLE task_his (
    id                 integer PRIMARY KEY,
    tenant_id          integer NOT NULL,
    type               text NOT NULL,
    creator            integer NOT NULL,
    start_time         integer NOT NULL,
    status             text NOT NULL,
    executing_deadline integer,
    exec_id            text,
    error_count        integer NOT NULL DEFAULT 0,
    error_info         text,
    category           text NOT NULL,
    remark             text,
    ext                text NOT NULL,
    result             text,
    exec_time          real,
    create_date        integer NOT NULL,
    update_date        integer NOT NULL,
    name               text,
    lane               text NOT NULL,
    priority           integer NOT NULL,
    mutex              text,
    rate_key           text,
    agent_id           text,
    unique_key         text,
    parent_id          integer,
    root_id            integer,
    retry_of           integer,
    correlation_id     text,
    attempt            integer NOT NULL DEFAULT 0,
    lost_count         integer NOT NULL DEFAULT 0,
    progress           text,
    worker_id          integer,
    scheduling_time    integer,
    started_at         integer,
    finished_at        integer,
    max_error_count    integer,
    timeout_seconds    real,
    cancel_requested   integer NOT NULL DEFAULT 0,
    pause_requested    integer NOT NULL DEFAULT 0,
    has_children       integer NOT NULL DEFAULT 0,
    skip_callback      integer NOT NULL DEFAULT 0,
    seq                integer NOT NULL DEFAULT 1,
    stream_id          integer NOT NULL,
    uses               text,
    claim_no           integer NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX task_his_finished ON task_his (finished_at, id);
CREATE INDEX task_his_family ON task_his (root_id, id) WHERE root_id IS NOT NULL;

-- Audit and outbox: one row per transition, written in the transition's own transaction.
CREATE TABLE task_event (
    id        integer PRIMARY KEY AUTOINCREMENT,
    task_id   integer,
    tenant_id integer NOT NULL,
    seq       integer NOT NULL,
    at        integer NOT NULL,
    kind      text NOT NULL,
    before    text,
    after     text,
    actor     text NOT NULL,
    exec_id   text,
    detail    text
) STRICT;
CREATE INDEX task_event_task ON task_event (task_id, seq);

CREATE TABLE task_log (
    id      integer PRIMARY KEY AUTOINCREMENT,
    task_id integer NOT NULL,
    at      integer NOT NULL,
    attempt integer NOT NULL,
    level   text NOT NULL,
    message text NOT NULL
) STRICT;
CREATE INDEX task_log_task ON task_log (task_id, id);

CREATE TABLE checkpoint (
    task_id integer NOT NULL,
    name    text NOT NULL,
    state   text NOT NULL,
    at      integer NOT NULL,
    PRIMARY KEY (task_id, name)
) STRICT;

CREATE TABLE stream (
    id        integer PRIMARY KEY AUTOINCREMENT,
    tenant_id integer NOT NULL,
    lane      text NOT NULL,
    type      text NOT NULL,
    category  text NOT NULL,
    rate_key  text NOT NULL,
    agent_id  text NOT NULL,
    digest    text NOT NULL UNIQUE -- of the six: together they may be too long for an index
) STRICT;

CREATE TABLE lane (
    name     text PRIMARY KEY,
    capacity integer CHECK (capacity >= 0),
    paused   integer NOT NULL DEFAULT 0
) STRICT;
INSERT INTO lane (name) VALUES ('*'), ('default');

CREATE TABLE resource (
    name     text PRIMARY KEY,
    capacity integer NOT NULL CHECK (capacity >= 0)
) STRICT;
INSERT INTO resource (name, capacity) VALUES ('disk-writer', 1);

CREATE TABLE rate_limit (
    name  text PRIMARY KEY,
    rate  real NOT NULL CHECK (rate > 0),
    burst integer NOT NULL CHECK (burst > 0),
    tat   real NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE task_metadata (
    id          integer PRIMARY KEY AUTOINCREMENT,
    code        text NOT NULL UNIQUE,
    name        text NOT NULL,
    category    text NOT NULL,
    config      text NOT NULL,
    edited      integer NOT NULL DEFAULT 0,
    create_date integer NOT NULL,
    update_date integer NOT NULL
) STRICT;

CREATE TABLE worker (
    id            integer PRIMARY KEY AUTOINCREMENT,
    name          text NOT NULL,
    agent_id      text,
    tenant_id     integer,
    types         text NOT NULL,
    lease_seconds real NOT NULL,
    lease_until   integer NOT NULL,
    lost          integer NOT NULL DEFAULT 0,
    started_at    integer NOT NULL,
    detail        text
) STRICT;
CREATE INDEX worker_alive ON worker (lease_until) WHERE NOT lost;

CREATE TABLE idempotency (
    tenant_id integer NOT NULL,
    key       text NOT NULL,
    body_hash text NOT NULL,
    task_ids  text NOT NULL,
    at        integer NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT;
CREATE INDEX idempotency_at ON idempotency (at);

CREATE TABLE claim_answer (
    worker_id integer NOT NULL,
    claim_id  text NOT NULL,
    task_ids  text NOT NULL,
    at        integer NOT NULL,
    PRIMARY KEY (worker_id, claim_id)
) STRICT;
CREATE INDEX claim_answer_at ON claim_answer (at);

CREATE TABLE sample (
    at     integer NOT NULL,
    lane   text NOT NULL,
    status text NOT NULL,
    count  integer NOT NULL,
    oldest integer,
    PRIMARY KEY (lane, status)
) STRICT;

-- Moves with every edit of a type, a limit or the set of streams: what a process has cached is good while it stands.
CREATE TABLE catalog (
    one     integer PRIMARY KEY CHECK (one = 1),
    version integer NOT NULL
) STRICT;
INSERT INTO catalog VALUES (1, 1);
