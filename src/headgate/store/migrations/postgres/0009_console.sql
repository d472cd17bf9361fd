-- Who is signed in at the console: a key was changed for a token, of which a hash is kept.
CREATE TABLE session (
    digest       text PRIMARY KEY,
    key_id       bigint NOT NULL,
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX session_expires ON session (expires_at);
