-- By which weight tenants take turns, where an operator set one; all others have 1.
CREATE TABLE headgate_tenant_weight (
    tenant_id integer PRIMARY KEY,
    weight    real NOT NULL CHECK (weight > 0)
) STRICT;
