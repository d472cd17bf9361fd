-- What becomes of a parent's other children when one has failed; whether its own code gave up; which children count.

ALTER TABLE task ADD COLUMN on_child_failure text;
ALTER TABLE task ADD COLUMN gave_up boolean NOT NULL DEFAULT false;
ALTER TABLE task ADD COLUMN children_since bigint NOT NULL DEFAULT 0;
ALTER TABLE task_his ADD COLUMN on_child_failure text;
ALTER TABLE task_his ADD COLUMN gave_up boolean NOT NULL DEFAULT false;
ALTER TABLE task_his ADD COLUMN children_since bigint NOT NULL DEFAULT 0;

-- Children are found by their parent. By the root of the family only those are looked for that wait for its mutex;
-- the coalesce keeps the planner from the index of the whole line.
DROP INDEX task_family;
CREATE INDEX task_family ON task (root_id, (coalesce(mutex, '')), stream_id, priority, id)
    WHERE root_id IS NOT NULL AND status = 'blocked';
CREATE INDEX task_child ON task (parent_id, status, id) WHERE parent_id IS NOT NULL;
DROP INDEX task_his_family;
CREATE INDEX task_his_child ON task_his (parent_id, status, id) WHERE parent_id IS NOT NULL;
