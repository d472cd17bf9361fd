-- The whole schema in one piece: what a new store gets, and what to read to learn it. Steps 1 to 9 made the same without
-- the prefix; a store that began with them is brought here by renaming what it has (`migrate.py`).
--
-- Times are microseconds since the epoch, booleans 0 and 1, ext and result JSON text.

-- Tasks

CREATE TABLE headgate_task (
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
    on_child_failure   text,
    gave_up            integer NOT NULL DEFAULT 0,
    children_since     integer NOT NULL DEFAULT 0,
    CHECK ((status IN ('scheduling', 'running')) = (exec_id IS NOT NULL)),
    CHECK ((status = 'succeeded' OR status = 'failed' OR status = 'cancelled' OR status = 'partial'
            OR status = 'resolved') = (finished_at IS NOT NULL)),
    CHECK (status <> 'blocked' OR mutex IS NOT NULL)
) STRICT;

-- Every index is paid for by every submit, claim and settle: there is one only where a claim or a duty would
-- otherwise read more than it takes. A list of three or more words that is looked at first costs 5 µs a row.
CREATE INDEX headgate_task_ready ON headgate_task (stream_id, priority, id) WHERE status = 'queued';
CREATE INDEX headgate_task_ready_creator ON headgate_task (stream_id, creator, priority, id)
    WHERE creator <> 0 AND status = 'queued';
CREATE INDEX headgate_task_timed ON headgate_task (start_time, id) WHERE status IN ('pending', 'retrying');
CREATE INDEX headgate_task_held ON headgate_task (lane, claim_no) WHERE status IN ('scheduling', 'running');
CREATE INDEX headgate_task_using ON headgate_task (claim_no)
    WHERE uses IS NOT NULL AND status IN ('scheduling', 'running');
CREATE UNIQUE INDEX headgate_task_mutex ON headgate_task (tenant_id, mutex)
    WHERE mutex IS NOT NULL AND exec_id IS NOT NULL;
CREATE INDEX headgate_task_line ON headgate_task (tenant_id, mutex, status, stream_id, priority, id)
    WHERE mutex IS NOT NULL AND status IN ('queued', 'blocked', 'waiting');
CREATE UNIQUE INDEX headgate_task_unique ON headgate_task (tenant_id, type, unique_key)
    WHERE unique_key IS NOT NULL AND status IN ('pending', 'blocked', 'queued', 'scheduling', 'running', 'waiting',
                                                'paused', 'retrying', 'notifying');
CREATE INDEX headgate_task_waiting ON headgate_task (id) WHERE has_children AND status = 'waiting';
CREATE INDEX headgate_task_stopped ON headgate_task (status, id) WHERE status IN ('dead', 'notifying');
CREATE INDEX headgate_task_finished ON headgate_task (finished_at, id) WHERE finished_at IS NOT NULL;

-- What lists go by: the tasks that have something in common, in the order of their ids. What is queued stands in
-- headgate_task_ready, what runs in headgate_task_held; a task that passes through them to its end pays for one entry
-- here, when it ends, and one without a creator, a mutex or a correlation id pays nothing for those.
-- Only lists say `id + 0 > 0`: no planner can lead any other statement along these.
CREATE INDEX headgate_task_by_status ON headgate_task (status, stream_id, id)
    WHERE id + 0 > 0 AND status <> 'queued' AND status <> 'scheduling' AND status <> 'running';
CREATE INDEX headgate_task_by_creator ON headgate_task (creator, id) WHERE id + 0 > 0 AND creator <> 0;
CREATE INDEX headgate_task_by_mutex ON headgate_task (mutex, id) WHERE id + 0 > 0 AND mutex IS NOT NULL;
CREATE INDEX headgate_task_by_correlation_id ON headgate_task (correlation_id, id)
    WHERE id + 0 > 0 AND correlation_id IS NOT NULL;

-- Children are found by their parent. By the root of the family only those are looked for that wait for its mutex;
-- the coalesce keeps the planner from the index of the whole line.
CREATE INDEX headgate_task_family ON headgate_task (root_id, coalesce(mutex, ''), stream_id, priority, id)
    WHERE root_id IS NOT NULL AND status = 'blocked';
CREATE INDEX headgate_task_child ON headgate_task (parent_id, status, id) WHERE parent_id IS NOT NULL;

-- History: tasks that have ended.
CREATE TABLE headgate_task_his (
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
    claim_no           integer NOT NULL DEFAULT 0,
    on_child_failure   text,
    gave_up            integer NOT NULL DEFAULT 0,
    children_since     integer NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX headgate_task_his_finished ON headgate_task_his (finished_at, id);
CREATE INDEX headgate_task_his_by_status ON headgate_task_his (status, stream_id, id) WHERE id + 0 > 0;
CREATE INDEX headgate_task_his_by_creator ON headgate_task_his (creator, id)
    WHERE id + 0 > 0 AND creator <> 0;
CREATE INDEX headgate_task_his_by_mutex ON headgate_task_his (mutex, id)
    WHERE id + 0 > 0 AND mutex IS NOT NULL;
CREATE INDEX headgate_task_his_by_correlation_id ON headgate_task_his (correlation_id, id)
    WHERE id + 0 > 0 AND correlation_id IS NOT NULL;
CREATE INDEX headgate_task_his_child ON headgate_task_his (parent_id, status, id) WHERE parent_id IS NOT NULL;
-- What is removed goes by how it ended: those that are kept longer are not walked each time. Lists, which ask for no
-- time, are not to take it for a way by status.
CREATE INDEX headgate_task_his_ended ON headgate_task_his (status, finished_at, id)
    WHERE finished_at IS NOT NULL;

-- Audit and outbox: one row per transition, written in the transition's own transaction.
CREATE TABLE headgate_task_event (
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
CREATE INDEX headgate_task_event_task ON headgate_task_event (task_id, seq);

CREATE TABLE headgate_task_log (
    id      integer PRIMARY KEY AUTOINCREMENT,
    task_id integer NOT NULL,
    at      integer NOT NULL,
    attempt integer NOT NULL,
    level   text NOT NULL,
    message text NOT NULL
) STRICT;
CREATE INDEX headgate_task_log_task ON headgate_task_log (task_id, id);

CREATE TABLE headgate_checkpoint (
    task_id integer NOT NULL,
    name    text NOT NULL,
    state   text NOT NULL,
    at      integer NOT NULL,
    PRIMARY KEY (task_id, name)
) STRICT;

-- What a task's last execution used of its machine, where that can be told of it alone.
CREATE TABLE headgate_task_usage (
    task_id       integer PRIMARY KEY,
    attempt       integer NOT NULL,
    cpu_seconds   real NOT NULL,
    memory_bytes  integer,
    read_bytes    integer,
    written_bytes integer
) STRICT;

-- Catalog: types, and what limits them

CREATE TABLE headgate_task_metadata (
    id          integer PRIMARY KEY AUTOINCREMENT,
    code        text NOT NULL UNIQUE,
    name        text NOT NULL,
    category    text NOT NULL,
    config      text NOT NULL,
    edited      integer NOT NULL DEFAULT 0,
    create_date integer NOT NULL,
    update_date integer NOT NULL
) STRICT;

-- The tasks that meet the same gates.
CREATE TABLE headgate_stream (
    id        integer PRIMARY KEY AUTOINCREMENT,
    tenant_id integer NOT NULL,
    lane      text NOT NULL,
    type      text NOT NULL,
    category  text NOT NULL,
    rate_key  text NOT NULL,
    agent_id  text NOT NULL,
    digest    text NOT NULL UNIQUE -- of the six: together they may be too long for an index
) STRICT;

CREATE TABLE headgate_lane (
    name     text PRIMARY KEY,
    capacity integer CHECK (capacity >= 0),
    paused   integer NOT NULL DEFAULT 0
) STRICT;
INSERT INTO headgate_lane (name) VALUES ('*'), ('default');

CREATE TABLE headgate_resource (
    name     text PRIMARY KEY,
    capacity integer NOT NULL CHECK (capacity >= 0)
) STRICT;
INSERT INTO headgate_resource (name, capacity) VALUES ('disk-writer', 1);

CREATE TABLE headgate_rate_limit (
    name  text PRIMARY KEY,
    rate  real NOT NULL CHECK (rate > 0),
    burst integer NOT NULL CHECK (burst > 0),
    tat   real NOT NULL DEFAULT 0
) STRICT;

-- Moves with every edit of a type, a limit or the set of streams: what a process has cached is good while it stands.
CREATE TABLE headgate_catalog (
    one     integer PRIMARY KEY CHECK (one = 1),
    version integer NOT NULL
) STRICT;
INSERT INTO headgate_catalog VALUES (1, 1);

-- Submits

CREATE TABLE headgate_idempotency (
    tenant_id integer NOT NULL,
    key       text NOT NULL,
    body_hash text NOT NULL,
    task_ids  text NOT NULL,
    at        integer NOT NULL,
    PRIMARY KEY (tenant_id, key)
) STRICT;
CREATE INDEX headgate_idempotency_at ON headgate_idempotency (at);

-- The last task made under a key by a submit that is unique for a while, or debounced. Its row is what such submits
-- lock.
CREATE TABLE headgate_submit_key (
    tenant_id integer NOT NULL,
    type      text NOT NULL,
    key       text NOT NULL,
    task_id   integer,
    at        integer NOT NULL,
    until     integer NOT NULL, -- then nobody asks for it any more
    PRIMARY KEY (tenant_id, type, key)
) STRICT;
CREATE INDEX headgate_submit_key_until ON headgate_submit_key (until);

-- Workers and agents

CREATE TABLE headgate_worker (
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
CREATE INDEX headgate_worker_alive ON headgate_worker (lease_until) WHERE NOT lost;

-- Which executions a claim was answered with (exec_ids): a task may have another one by the time the claim is repeated.
CREATE TABLE headgate_claim_answer (
    worker_id integer NOT NULL,
    claim_id  text NOT NULL,
    task_ids  text NOT NULL,
    at        integer NOT NULL,
    exec_ids  text,
    PRIMARY KEY (worker_id, claim_id)
) STRICT;
CREATE INDEX headgate_claim_answer_at ON headgate_claim_answer (at);

-- Starts that agents have to confirm. This is an agent's last one: it holds up the next for some seconds.
CREATE TABLE headgate_agent_start (
    agent_id   text NOT NULL,
    tenant_id  integer NOT NULL,
    started_at integer NOT NULL,
    seconds    real NOT NULL,
    PRIMARY KEY (agent_id, tenant_id)
) STRICT, WITHOUT ROWID;

-- How far the search for lost starts is: one row, so that all processes that run it poll as one.
CREATE TABLE headgate_compensation (
    one        integer PRIMARY KEY CHECK (one = 1),
    multiplier integer NOT NULL CHECK (multiplier > 0),
    skips      integer NOT NULL CHECK (skips >= 0),
    since      integer NOT NULL, -- the wait for the next poll counts from here
    last_poll  integer
) STRICT;

-- Schedules, what their ticks did, and what they began that still goes on

CREATE TABLE headgate_periodic_task (
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
CREATE INDEX headgate_periodic_task_due ON headgate_periodic_task (next_tick, id) WHERE status = 'online';
CREATE INDEX headgate_periodic_task_tenant ON headgate_periodic_task (tenant_id, id);

CREATE TABLE headgate_periodic_task_log (
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
CREATE INDEX headgate_periodic_task_log_of ON headgate_periodic_task_log (periodic_task_id, id);
CREATE UNIQUE INDEX headgate_periodic_task_log_tick ON headgate_periodic_task_log (periodic_task_id, tick)
    WHERE tick IS NOT NULL;

CREATE TABLE headgate_periodic_run (
    id               integer PRIMARY KEY AUTOINCREMENT,
    periodic_task_id integer NOT NULL,
    tick             integer,
    task_id          integer, -- NULL: a call
    log_id           integer,
    caller           text, -- who makes the call; NULL: nobody yet
    CHECK (task_id IS NULL OR caller IS NULL)
) STRICT;
CREATE INDEX headgate_periodic_run_of ON headgate_periodic_run (periodic_task_id, id);
CREATE INDEX headgate_periodic_run_call ON headgate_periodic_run (id) WHERE task_id IS NULL;

-- Callbacks

-- What is owed to receivers: a row per callback, written in the transition's own transaction. `due_at` is when it is to
-- be sent, or, while somebody is sending it under a lease, when it may be taken for forgotten.
CREATE TABLE headgate_callback_delivery (
    id           integer PRIMARY KEY AUTOINCREMENT,
    webhook_id   text NOT NULL,
    task_id      integer NOT NULL,
    tenant_id    integer NOT NULL,
    type         text NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('success', 'error')),
    seq          integer NOT NULL, -- of the transition that asks for it
    status       text NOT NULL CHECK (status IN ('pending', 'delivered', 'undeliverable', 'dropped')),
    attempts     integer NOT NULL DEFAULT 0, -- since it was last asked for
    due_at       integer NOT NULL,
    lease        text,
    host         text, -- that it was last sent to, and what came of it
    last_status  integer,
    last_error   text,
    error_info   text, -- as it was then: a task that is tried again fails differently
    created_at   integer NOT NULL,
    update_date  integer NOT NULL,
    delivered_at integer,
    CHECK (lease IS NULL OR status = 'pending')
) STRICT;
CREATE INDEX headgate_callback_delivery_due ON headgate_callback_delivery (type, kind, due_at, id)
    WHERE status = 'pending';
CREATE INDEX headgate_callback_delivery_status ON headgate_callback_delivery (status, id);
CREATE INDEX headgate_callback_delivery_task ON headgate_callback_delivery (task_id, id);

CREATE TABLE headgate_callback_attempt (
    id          integer PRIMARY KEY AUTOINCREMENT,
    delivery_id integer NOT NULL,
    lease       text NOT NULL, -- that it was sent under
    task_id     integer NOT NULL,
    at          integer NOT NULL,
    host        text NOT NULL,
    status      integer, -- NULL: there was no answer
    seconds     real NOT NULL,
    error       text NOT NULL,
    body        text NOT NULL,
    UNIQUE (delivery_id, lease)
) STRICT;
CREATE INDEX headgate_callback_attempt_task ON headgate_callback_attempt (task_id, id);

-- Samples and series, for people and forecasts

CREATE TABLE headgate_sample (
    at     integer NOT NULL,
    lane   text NOT NULL,
    status text NOT NULL,
    count  integer NOT NULL,
    oldest integer,
    PRIMARY KEY (lane, status)
) STRICT;

-- The long lines, as last sampled: how many of a stream are queued at a priority (the extremes together), and their
-- ids.
CREATE TABLE headgate_sample_line (
    at        integer NOT NULL,
    stream_id integer NOT NULL,
    priority  integer NOT NULL,
    count     integer NOT NULL,
    first_id  integer NOT NULL,
    last_id   integer NOT NULL,
    PRIMARY KEY (stream_id, priority)
) STRICT;

-- How long tasks of a type took lately in a lane: JSON, [[seconds, attempts], …], newest first; `at` is when the newest
-- of them finished.
CREATE TABLE headgate_run_time (
    lane   text NOT NULL,
    type   text NOT NULL,
    recent text NOT NULL,
    at     integer NOT NULL,
    PRIMARY KEY (lane, type)
) STRICT;

-- What happened in each stretch of time, and how it stood at its end: for people's charts. A few thousand rows at most.
CREATE TABLE headgate_series (
    step      integer NOT NULL, -- seconds
    at        integer NOT NULL, -- when the stretch begins
    mark      integer NOT NULL, -- the last event that was counted
    submitted integer NOT NULL,
    started   integer NOT NULL,
    succeeded integer NOT NULL,
    failed    integer NOT NULL,
    retried   integer NOT NULL,
    cancelled integer NOT NULL,
    wait_p50  real, -- seconds, from when it was due to its start
    wait_p95  real,
    run_p50   real,
    run_p95   real,
    waiting   integer,
    later     integer,
    running   integer,
    dead      integer,
    oldest    real, -- seconds
    PRIMARY KEY (step, at)
) STRICT, WITHOUT ROWID;

-- Access. A key's secret is nowhere: its hash is kept.

CREATE TABLE headgate_api_key (
    id           integer PRIMARY KEY AUTOINCREMENT,
    name         text NOT NULL,
    role         text NOT NULL CHECK (role IN ('read', 'submit', 'agent', 'operator', 'admin')),
    tenant_id    integer, -- NULL: every tenant's
    digest       text NOT NULL,
    created_at   integer NOT NULL,
    created_by   text NOT NULL,
    expires_at   integer,
    revoked_at   integer,
    last_used_at integer
) STRICT;

-- What signed requests carried, until they are too old to be sent again.
CREATE TABLE headgate_nonce (
    key_id     integer NOT NULL,
    nonce      text NOT NULL,
    expires_at integer NOT NULL,
    PRIMARY KEY (key_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX headgate_nonce_expires ON headgate_nonce (expires_at);

-- Who is signed in at the console: a key was changed for a token, of which a hash is kept.
CREATE TABLE headgate_session (
    digest       text PRIMARY KEY,
    key_id       integer NOT NULL,
    created_at   integer NOT NULL,
    last_used_at integer NOT NULL,
    expires_at   integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX headgate_session_expires ON headgate_session (expires_at);

-- Which steps of the schema were taken.
CREATE TABLE headgate_migration (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at integer NOT NULL
) STRICT;
