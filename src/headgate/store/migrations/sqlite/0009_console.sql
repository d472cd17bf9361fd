-- Who is signed in at the console: a key was changed for a token, of which a hash is kept.
CREATE TABLE session (
    digest       text PRIMARY KEY,
    key_id       integer NOT NULL,
    created_at   integer NOT NULL,
    last_used_at integer NOT NULL,
    expires_at   integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_expires ON session (expires_at);
