import { ActionIcon } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { amount, duration } from "@/parts/formats";
import { Panel } from "@/parts/Panel";
import { Progress } from "@/parts/Progress";
import { StateBadge } from "@/parts/StateBadge";
import { childrenQuery, familyQuery, type Task, taskQuery } from "@/services/tasks";
import { useSpoken, useTexts } from "@/texts";
import classes from "./Family.module.css";

/** Where a task stands among its parents and children. */
export function Family({ task }: { task: Task }) {
  const t = useTexts().task.family;
  const children = useQuery(childrenQuery(String(task.id))).data;
  if (task.parent_id === null && (children?.items.length ?? 0) === 0) return null;
  return (
    <Panel title={t.title}>
      {children && children.items.length > 0 ? <Counts id={String(task.id)} /> : null}
      <ul className={classes.tree}>
        {task.parent_id === null ? (
          <Member task={task} here open />
        ) : (
          <Ancestors id={String(task.parent_id)} below={<Member task={task} here open />} />
        )}
      </ul>
      {children?.next_cursor ? <p className={classes.more}>{t.more}</p> : null}
    </Panel>
  );
}

/** The parent, its parent and so on, each with the next one below it. */
function Ancestors({ id, below }: { id: string; below: React.ReactNode }) {
  const parent = useQuery(taskQuery(id)).data;
  if (!parent) return <>{below}</>;
  const line = (
    <li>
      <Line task={parent} />
      <ul className={classes.tree}>{below}</ul>
    </li>
  );
  return parent.parent_id === null ? line : <Ancestors id={String(parent.parent_id)} below={line} />;
}

function Member({ task, here, open: openAtFirst = false }: { task: Task; here?: boolean; open?: boolean }) {
  const t = useTexts().task.family;
  const [open, setOpen] = useState(openAtFirst);
  const children = useQuery({ ...childrenQuery(String(task.id)), enabled: open }).data?.items ?? [];
  return (
    <li>
      <div className={classes.member}>
        <ActionIcon
          size="xs"
          aria-label={t.show(task.id)}
          aria-expanded={open}
          className={classes.fold}
          onClick={() => setOpen(!open)}
        >
          <IconChevronRight size={12} />
        </ActionIcon>
        <Line task={task} here={here} />
      </div>
      {open && children.length > 0 ? (
        <ul className={classes.tree}>
          {children.map((child) => (
            <Member key={child.id} task={child} />
          ))}
        </ul>
      ) : null}
    </li>
  );
}

function Line({ task, here }: { task: Task; here?: boolean | undefined }) {
  return (
    <span className={classes.line} data-here={here || undefined}>
      <Link to="/tasks/$taskId" params={{ taskId: String(task.id) }} aria-current={here ? "page" : undefined}>
        #{task.id}
      </Link>
      <span>{task.type}</span>
      <StateBadge status={task.status} />
      <span className={classes.progress}>
        <Progress progress={task.progress} status={task.status} />
      </span>
      <span className={classes.dim}>{task.exec_time === null ? "" : duration(task.exec_time)}</span>
    </span>
  );
}

/** How many children are in which state. */
function Counts({ id }: { id: string }) {
  const { language } = useSpoken();
  const family = useQuery(familyQuery(id)).data;
  if (!family) return null;
  return (
    <div className={classes.counts}>
      {Object.entries(family.states).map(([state, count]) => (
        <span key={state}>
          {amount(count, language)}
          {family.exact ? "" : "+"} <StateBadge status={state} />
        </span>
      ))}
    </div>
  );
}
