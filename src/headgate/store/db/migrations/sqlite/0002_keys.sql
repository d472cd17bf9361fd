-- Who may come in. A key's secret is nowhere: its hash is kept.

CREATE TABLE api_key (
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
CREATE TABLE nonce (
    key_id     integer NOT NULL,
    nonce      text NOT NULL,
    expires_at integer NOT NULL,
    PRIMARY KEY (key_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX nonce_expires ON nonce (expires_at);
