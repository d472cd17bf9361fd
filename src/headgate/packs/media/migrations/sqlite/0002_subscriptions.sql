CREATE TABLE headgate_media_subscription (
    id              integer PRIMARY KEY AUTOINCREMENT,
    tenant_id       integer NOT NULL,
    name            text NOT NULL,
    url             text NOT NULL,
    requires_cookie integer NOT NULL, -- to look at its list; downloads always take it
    created_at      integer NOT NULL,
    deleted_at      integer,
    expected_total  integer, -- as the site says
    expected_at     integer,
    listed_at       integer -- when its list was last fetched to the end
) STRICT;
CREATE INDEX headgate_media_subscription_tenant ON headgate_media_subscription (tenant_id, id)
    WHERE deleted_at IS NULL;
CREATE INDEX headgate_media_subscription_deleted ON headgate_media_subscription (id) WHERE deleted_at IS NOT NULL;

CREATE TABLE headgate_media_item (
    id              integer PRIMARY KEY AUTOINCREMENT,
    subscription_id integer NOT NULL,
    key             text NOT NULL, -- the site's id of the video
    position        integer NOT NULL,
    title           text NOT NULL,
    url             text NOT NULL,
    state           text NOT NULL CHECK (state IN ('listed', 'downloaded', 'missing', 'broken')),
    path            text,
    bytes           integer,
    listed_at       integer NOT NULL,
    downloaded_at   integer,
    UNIQUE (subscription_id, key)
) STRICT;
CREATE INDEX headgate_media_item_state ON headgate_media_item (subscription_id, state, position, id);
CREATE INDEX headgate_media_item_key ON headgate_media_item (key);

CREATE TABLE headgate_media_cookie (
    id             integer PRIMARY KEY AUTOINCREMENT,
    tenant_id      integer NOT NULL,
    site           text NOT NULL, -- a host, with all below it
    sealed         text NOT NULL,
    revision       integer NOT NULL, -- one more with each new content: what the old one did is not held against it
    failures       integer NOT NULL,
    disabled_at    integer,
    last_error     text, -- the class alone
    last_warned_at integer,
    created_at     integer NOT NULL,
    changed_at     integer NOT NULL,
    used_at        integer,
    UNIQUE (tenant_id, site)
) STRICT;

-- The tasks of a subscription, by the argument itself.
CREATE INDEX headgate_media_task ON headgate_task (json_extract(ext, '$.subscription_id'), id)
    WHERE id + 0 > 0 AND type IN ('expected_total', 'parse', 'list_fetch', 'download');
CREATE INDEX headgate_media_task_his ON headgate_task_his (json_extract(ext, '$.subscription_id'), id)
    WHERE id + 0 > 0 AND type IN ('expected_total', 'parse', 'list_fetch', 'download');
CREATE INDEX headgate_media_task_open ON headgate_task (json_extract(ext, '$.subscription_id'))
    WHERE type IN ('expected_total', 'parse', 'list_fetch', 'download')
      AND status IN ('pending', 'blocked', 'queued', 'scheduling', 'running', 'waiting', 'paused', 'retrying',
                     'notifying');
