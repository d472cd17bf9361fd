-- When an agent last asked for work; null: it never has, or did so before this was kept.
ALTER TABLE headgate_worker ADD COLUMN asked_at integer;
