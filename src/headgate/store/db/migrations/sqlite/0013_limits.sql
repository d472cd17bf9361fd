-- Limits that ship with code. `source` is who set a limit: 'default' nobody, 'pack', 'program' and 'settings' a
-- declaration, which the next one replaces, 'person' an edit, which stands. What was set before this step is taken for
-- a person's.
ALTER TABLE headgate_lane ADD COLUMN source text NOT NULL DEFAULT 'default';
UPDATE headgate_lane SET source = 'person' WHERE capacity IS NOT NULL;

ALTER TABLE headgate_resource ADD COLUMN source text NOT NULL DEFAULT 'default';
UPDATE headgate_resource SET source = 'person' WHERE capacity <> 1;

-- A row with a tenant is the bucket of a key that nobody set a limit for: its rate, its burst and whether it is lifted
-- are those of 'key:*'.
ALTER TABLE headgate_rate_limit ADD COLUMN source text NOT NULL DEFAULT 'default';
ALTER TABLE headgate_rate_limit ADD COLUMN lifted integer NOT NULL DEFAULT 0;
ALTER TABLE headgate_rate_limit ADD COLUMN tenant_id integer;
DELETE FROM headgate_rate_limit WHERE name LIKE 'key:%' AND rate = 10 AND burst = 20;
UPDATE headgate_rate_limit SET source = 'person';
DELETE FROM headgate_rate_limit WHERE name = 'key:*';
INSERT INTO headgate_rate_limit (name, rate, burst) VALUES ('key:*', 10, 20);
INSERT INTO headgate_rate_limit (name, rate, burst, tenant_id)
SELECT DISTINCT 'tenant:' || tenant_id || ' key:' || rate_key, 10, 20, tenant_id
  FROM headgate_stream WHERE rate_key <> '';
