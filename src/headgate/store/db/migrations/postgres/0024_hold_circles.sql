-- What a handler that waits for a resource releases only afterwards: names as JSON, or nothing.
ALTER TABLE headgate_hold ADD COLUMN keeps text NOT NULL DEFAULT '';
