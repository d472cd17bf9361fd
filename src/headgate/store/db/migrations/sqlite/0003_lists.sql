-- What lists go by: the tasks that have something in common, in the order of their ids. What is queued stands in
-- task_ready, what runs in task_held; a task that passes through them to its end pays for one entry here, when it ends,
-- and one without a creator, a mutex or a correlation id pays nothing for those.
-- Only lists say `id + 0 > 0`: no planner can lead any other statement along these.
CREATE INDEX task_by_status ON task (status, stream_id, id)
    WHERE id + 0 > 0 AND status <> 'queued' AND status <> 'scheduling' AND status <> 'running';
CREATE INDEX task_by_creator ON task (creator, id) WHERE id + 0 > 0 AND creator <> 0;
CREATE INDEX task_by_mutex ON task (mutex, id) WHERE id + 0 > 0 AND mutex IS NOT NULL;
CREATE INDEX task_by_correlation_id ON task (correlation_id, id) WHERE id + 0 > 0 AND correlation_id IS NOT NULL;

CREATE INDEX task_his_by_status ON task_his (status, stream_id, id) WHERE id + 0 > 0;
CREATE INDEX task_his_by_creator ON task_his (creator, id) WHERE id + 0 > 0 AND creator <> 0;
CREATE INDEX task_his_by_mutex ON task_his (mutex, id) WHERE id + 0 > 0 AND mutex IS NOT NULL;
CREATE INDEX task_his_by_correlation_id ON task_his (correlation_id, id)
    WHERE id + 0 > 0 AND correlation_id IS NOT NULL;
