-- What is paused, why, by whom and until when. A row whose time is over holds nothing.
CREATE TABLE headgate_pause (
    scope  text NOT NULL CHECK (scope IN ('all', 'lane', 'type', 'tenant', 'key')),
    name   text NOT NULL,
    reason text NOT NULL,
    actor  text NOT NULL,
    at     integer NOT NULL,
    until  integer,
    PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;
INSERT INTO headgate_pause (scope, name, reason, actor, at)
SELECT CASE name WHEN '*' THEN 'all' ELSE 'lane' END, CASE name WHEN '*' THEN '' ELSE name END, '', 'person',
       CAST((julianday('now') - 2440587.5) * 86400000000 AS integer)
  FROM headgate_lane WHERE paused;
ALTER TABLE headgate_lane DROP COLUMN paused;
