import { Button, Menu } from "@mantine/core";
import { IconChevronDown, IconFileUnknown } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { idIn } from "@/app/address";
import { useSession } from "@/app/session";
import { ActDialog, DANGEROUS } from "@/parts/ActDialog";
import { EditReplay } from "@/parts/EditReplay";
import { Empty } from "@/parts/Empty";
import { Json, Plain } from "@/parts/Json";
import { Name } from "@/parts/Name";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { Progress, read } from "@/parts/Progress";
import { StateBadge } from "@/parts/StateBadge";
import type { Act } from "@/services/acts";
import { isGone } from "@/services/problem";
import { may } from "@/services/session";
import { stateOf } from "@/services/states";
import { type Task, taskQuery, verbsFor } from "@/services/tasks";
import { useTexts } from "@/texts";
import { Attempts } from "./Attempts";
import { Callbacks } from "./Callbacks";
import { Facts } from "./Facts";
import { Family } from "./Family";
import { Log } from "./Log";
import classes from "./page.module.css";
import { taskRoute } from "./route";
import { Timeline } from "./Timeline";
import { WhyPanel } from "./WhyPanel";

export function TaskPage() {
  const { taskId } = taskRoute.useParams();
  const id = idIn(taskId);
  return id ? <OneTask key={id} taskId={id} /> : <NoSuchTask taskId={taskId} />;
}

function NoSuchTask({ taskId }: { taskId: string }) {
  const t = useTexts().task;
  return (
    <Empty icon={IconFileUnknown} title={t.noSuch(taskId)}>
      {t.noSuchAbout}
    </Empty>
  );
}

function OneTask({ taskId }: { taskId: string }) {
  const t = useTexts();
  const task = useQuery(taskQuery(taskId));
  const type = task.data?.type;
  useEffect(() => {
    document.title = `${type ? `#${taskId} ${type}` : t.task.title(taskId)} · Headgate`;
  }, [taskId, type, t]);

  if (isGone(task.error)) return <NoSuchTask taskId={taskId} />;
  if (task.error && !task.data) return <ProblemNote error={task.error} retry={() => task.refetch()} />;
  return task.data ? <TaskView task={task.data} /> : null;
}

function TaskView({ task }: { task: Task }) {
  const t = useTexts();
  const id = String(task.id);
  return (
    <Page
      title={
        <span className={classes.title}>
          <span className={classes.id}>#{id}</span> <Name of={task.type} />
        </span>
      }
      about={
        <span className={classes.about}>
          <StateBadge
            status={task.status}
            asked={task.cancel_requested ? "cancel" : task.pause_requested ? "pause" : undefined}
          />
          {task.name}
        </span>
      }
      actions={<Actions task={task} />}
    >
      <div className={classes.columns}>
        <div className={classes.stack}>
          <WhyPanel task={task} />
          {task.progress !== null ? <HowFar progress={task.progress} status={task.status} /> : null}
          {task.error_info ? (
            <Panel title={t.task.error}>
              <Plain text={task.error_info} />
            </Panel>
          ) : null}
          <div className={classes.pair}>
            <Panel title={t.task.ext}>
              <Json value={task.ext} />
            </Panel>
            {task.result === null ? null : (
              <Panel title={t.task.result}>
                <Json value={task.result} />
              </Panel>
            )}
          </div>
          <Callbacks taskId={task.id} />
          <Log id={id} status={stateOf(task.status)} />
          <Family task={task} />
        </div>
        <div className={classes.stack}>
          <Facts task={task} />
          <Attempts id={id} />
          <Timeline id={id} />
        </div>
      </div>
    </Page>
  );
}

function Actions({ task }: { task: Task }) {
  const { acts: t, desk } = useTexts();
  const session = useSession();
  const [act, setAct] = useState<Act | null>(null);
  const [editing, setEditing] = useState(false);
  const [first, ...rest] = verbsFor(stateOf(task.status));
  if (!may(session, "operator") || !first) return null;
  return (
    <>
      {rest.slice(-1).map((verb) => (
        <Button
          key={verb}
          variant="default"
          {...(DANGEROUS.has(verb) ? { c: "var(--tone-alarm)" } : {})}
          onClick={() => setAct({ verb, ids: [task.id] })}
        >
          {t.verbs[verb]}
        </Button>
      ))}
      {rest.length > 1 ? (
        <Menu position="bottom-end">
          <Menu.Target>
            <Button variant="default" rightSection={<IconChevronDown size={13} />}>
              {t.more}
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            {rest.slice(0, -1).map((verb) => (
              <Menu.Item key={verb} onClick={() => setAct({ verb, ids: [task.id] })}>
                {t.verbs[verb]}
              </Menu.Item>
            ))}
          </Menu.Dropdown>
        </Menu>
      ) : null}
      <Button color={DANGEROUS.has(first) ? "red" : "brand"} onClick={() => setAct({ verb: first, ids: [task.id] })}>
        {t.verbs[first]}
      </Button>
      {task.status === "failed" || task.status === "dead" ? (
        <Button variant="default" onClick={() => setEditing(true)}>
          {desk.editReplay}
        </Button>
      ) : null}
      {editing ? (
        <EditReplay ids={[task.id]} task={task} onClose={() => setEditing(false)} onDone={() => setEditing(false)} />
      ) : null}
      {act ? <ActDialog act={act} onClose={() => setAct(null)} /> : null}
    </>
  );
}

/** What a task says of its progress: a bar where it says it as we do, else its own words. */
function HowFar({ progress, status }: { progress: unknown; status: string }) {
  const t = useTexts().task;
  const said = read(progress);
  if (said && status === "succeeded") return null; // the last it said before its end
  return (
    <Panel title={t.progress}>
      {said ? (
        <div className={classes.progress}>
          <Progress progress={progress} status={status} />
          {said.note}
        </div>
      ) : (
        <Json value={progress} />
      )}
    </Panel>
  );
}
