import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Ago } from "@/parts/Ago";
import { bytes, duration } from "@/parts/formats";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { useNow } from "@/parts/useNow";
import { elapsed, type Task } from "@/services/tasks";
import { workersQuery } from "@/services/workers";
import { useTexts } from "@/texts";
import classes from "./Facts.module.css";

/** Everything that is known about a task, but for what it takes and gives. */
export function Facts({ task }: { task: Task }) {
  const t = useTexts().task.facts;
  const now = useNow();
  return (
    <Panel title={t.title}>
      <dl className={classes.facts}>
        <Fact name={t.type}>
          <Link to="/tasks" search={{ type: task.type }}>
            <Name of={task.type} />
          </Link>
        </Fact>
        <Fact name={t.lane}>
          <Link to="/tasks" search={{ lane: task.lane }}>
            <Name of={task.lane} />
          </Link>
        </Fact>
        <Fact name={t.category}>{task.category}</Fact>
        <Fact name={t.priority}>{task.priority}</Fact>
        <Fact name={t.mutex}>
          {task.mutex === null ? null : (
            <Link to="/tasks" search={{ mutex: task.mutex }}>
              <Name of={task.mutex} />
            </Link>
          )}
        </Fact>
        <Fact name={t.rateKey}>{task.rate_key}</Fact>
        <Fact name={t.unique}>{task.unique_key}</Fact>
        <Fact name={t.created}>
          <Ago at={task.create_date} />
        </Fact>
        <Fact name={t.due}>{task.start_time === task.create_date ? null : <Ago at={task.start_time} />}</Fact>
        <Fact name={t.started}>{task.started_at ? <Ago at={task.started_at} /> : null}</Fact>
        <Fact name={t.deadline}>{task.executing_deadline ? <Ago at={task.executing_deadline} /> : null}</Fact>
        <Fact name={t.finished}>{task.finished_at ? <Ago at={task.finished_at} /> : null}</Fact>
        <Fact name={t.took}>{elapsed(task, now) === null ? null : duration(elapsed(task, now))}</Fact>
        <Fact name={t.used}>{task.usage ? <Used usage={task.usage} /> : null}</Fact>
        <Fact name={t.attempt}>{task.attempt}</Fact>
        <Fact name={t.errors}>{task.error_count > 0 ? task.error_count : null}</Fact>
        <Fact name={t.lost}>{task.lost_count > 0 ? task.lost_count : null}</Fact>
        <Fact name={t.most}>{task.max_error_count}</Fact>
        <Fact name={t.timeout}>{task.timeout_seconds === null ? null : duration(task.timeout_seconds)}</Fact>
        <Fact name={t.worker}>{task.worker_id === null ? null : <WorkerName id={task.worker_id} />}</Fact>
        <Fact name={t.agent}>{task.agent_id}</Fact>
        <Fact name={t.execution}>{task.exec_id === null ? null : <code>{task.exec_id}</code>}</Fact>
        <Fact name={t.correlation}>
          {task.correlation_id === null ? null : (
            <Link to="/tasks" search={{ correlation_id: task.correlation_id }}>
              {task.correlation_id}
            </Link>
          )}
        </Fact>
        <Fact name={t.retryOf}>{task.retry_of === null ? null : <ToTask id={task.retry_of} />}</Fact>
        <Fact name={t.parent}>{task.parent_id === null ? null : <ToTask id={task.parent_id} />}</Fact>
        <Fact name={t.creator}>{task.creator}</Fact>
        <Fact name={t.tenant}>{task.tenant_id}</Fact>
        <Fact name={t.remark}>{task.remark}</Fact>
      </dl>
    </Panel>
  );
}

/** Left out where there is nothing to say. */
function Fact({ name, children }: { name: string; children: ReactNode }) {
  if (children === null || children === undefined || children === "") return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** What its last execution took of the machine. */
function Used({ usage }: { usage: NonNullable<Task["usage"]> }) {
  const t = useTexts().task.facts;
  const sizes = [
    [t.memory, usage.memory_bytes],
    [t.read, usage.read_bytes],
    [t.written, usage.written_bytes],
  ] as const;
  const told = sizes.filter(([_, size]) => size !== null).map(([what, size]) => `${bytes(size)} ${what}`);
  return [`${duration(usage.cpu_seconds)} CPU`, ...told].join(", ");
}

function ToTask({ id }: { id: number }) {
  return (
    <Link to="/tasks/$taskId" params={{ taskId: String(id) }}>
      #{id}
    </Link>
  );
}

function WorkerName({ id }: { id: number }) {
  const worker = useQuery(workersQuery).data?.find((each) => each.id === id);
  return worker ? `${worker.agent_id ?? worker.name} (${id})` : id;
}
