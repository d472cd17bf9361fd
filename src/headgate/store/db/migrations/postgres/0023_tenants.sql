-- What waits is counted by tenant, so that each sees its own. What is here is counted anew within seconds.
DROP TABLE headgate_sample;
CREATE TABLE headgate_sample (
    at        timestamptz NOT NULL,
    tenant_id bigint NOT NULL DEFAULT 0,
    lane      text NOT NULL,
    status    text NOT NULL,
    count     bigint NOT NULL,
    oldest    timestamptz,
    PRIMARY KEY (tenant_id, lane, status)
);

-- Whether a key of one tenant said where the schedule calls; what was said before this step counts as an operator's.
ALTER TABLE headgate_periodic_task ADD COLUMN http_by_tenant boolean NOT NULL DEFAULT false;

-- Calls wait in a queue for each tenant and host.
ALTER TABLE headgate_periodic_run ADD COLUMN tenant_id bigint NOT NULL DEFAULT 0;
ALTER TABLE headgate_periodic_run ADD COLUMN host text NOT NULL DEFAULT '';
UPDATE headgate_periodic_run
   SET tenant_id = coalesce((SELECT tenant_id FROM headgate_periodic_task p WHERE p.id = periodic_task_id), 0)
 WHERE task_id IS NULL;
CREATE INDEX headgate_periodic_run_waiting ON headgate_periodic_run (tenant_id, host, id)
 WHERE task_id IS NULL AND caller IS NULL;

-- Of the callbacks of a type, tenants take turns.
CREATE INDEX headgate_callback_delivery_turn ON headgate_callback_delivery (type, kind, tenant_id, due_at, id)
 WHERE status = 'pending';
