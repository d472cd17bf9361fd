-- Who may come in. A key's secret is nowhere: its hash is kept.

CREATE TABLE api_key (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         text NOT NULL,
    role         text NOT NULL CHECK (role IN ('read', 'submit', 'agent', 'operator', 'admin')),
    tenant_id    bigint, -- NULL: every tenant's
    digest       text NOT NULL,
    created_at   timestamptz NOT NULL,
    created_by   text NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);

-- What signed requests carried, until they are too old to be sent again.
CREATE TABLE nonce (
    key_id     bigint NOT NULL,
    nonce      text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (key_id, nonce)
);
CREATE INDEX nonce_expires ON nonce (expires_at);
