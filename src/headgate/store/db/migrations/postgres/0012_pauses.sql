-- What is paused, why, by whom and until when. A row whose time is over holds nothing.
CREATE TABLE headgate_pause (
    scope  text NOT NULL CHECK (scope IN ('all', 'lane', 'type', 'tenant', 'key')),
    name   text NOT NULL,
    reason text NOT NULL,
    actor  text NOT NULL,
    at     timestamptz NOT NULL,
    until  timestamptz,
    PRIMARY KEY (scope, name)
);
INSERT INTO headgate_pause (scope, name, reason, actor, at)
SELECT CASE name WHEN '*' THEN 'all' ELSE 'lane' END, CASE name WHEN '*' THEN '' ELSE name END, '', 'person', now()
  FROM headgate_lane WHERE paused;
ALTER TABLE headgate_lane DROP COLUMN paused;
