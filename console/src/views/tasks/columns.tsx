import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { Ago } from "@/parts/Ago";
import { headOf } from "@/parts/errors";
import { duration } from "@/parts/formats";
import { Preview } from "@/parts/Preview";
import { Progress } from "@/parts/Progress";
import { StateBadge } from "@/parts/StateBadge";
import { elapsed, type Task } from "@/services/tasks";
import type { Texts } from "@/texts";

export interface Column {
  id: ColumnId;
  /** As narrow as it may be, in pixels. */
  width: number;
  /** Its share of what is left; as much as it is wide, if it does not say. */
  grow?: number;
  number?: boolean;
  /** As it is shown; `now` for running tasks. */
  cell: (task: Task, now: number) => ReactNode;
  /** As it is exported. */
  text: (task: Task) => string;
}

export type ColumnId = keyof Texts["tasks"]["columns"];

const said = (value: unknown): string => (value === null || value === undefined ? "" : String(value));
const json = (value: unknown): string => (value === null || value === undefined ? "" : JSON.stringify(value));

/** Every column there is, in the order they are shown. */
export const COLUMNS: Column[] = [
  {
    id: "id",
    width: 72,
    cell: (task) => (
      <Link to="/tasks/$taskId" params={{ taskId: String(task.id) }} data-id>
        {task.id}
      </Link>
    ),
    text: (task) => said(task.id),
  },
  {
    id: "status",
    width: 116,
    cell: (task) => (
      <StateBadge
        status={task.status}
        asked={task.cancel_requested ? "cancel" : task.pause_requested ? "pause" : undefined}
      />
    ),
    text: (task) => task.status,
  },
  {
    id: "type",
    width: 112,
    grow: 180,
    cell: (task) => (
      <>
        <b>{task.type}</b> {task.name ? <span data-muted>{task.name}</span> : null}
      </>
    ),
    text: (task) => task.type,
  },
  { id: "name", width: 150, cell: (task) => task.name, text: (task) => said(task.name) },
  { id: "ext", width: 160, grow: 280, cell: (task) => <Preview value={task.ext} />, text: (task) => json(task.ext) },
  {
    id: "progress",
    width: 130,
    cell: (task) => <Progress progress={task.progress} status={task.status} />,
    text: (task) => json(task.progress),
  },
  { id: "lane", width: 134, grow: 140, cell: (task) => task.lane, text: (task) => task.lane },
  { id: "priority", width: 58, number: true, cell: (task) => task.priority, text: (task) => said(task.priority) },
  { id: "attempt", width: 60, number: true, cell: (task) => task.attempt, text: (task) => said(task.attempt) },
  {
    id: "errors",
    width: 58,
    number: true,
    cell: (task) => (task.error_count > 0 ? <span data-tone="warn">{task.error_count}</span> : task.error_count),
    text: (task) => said(task.error_count),
  },
  { id: "mutex", width: 150, cell: (task) => task.mutex, text: (task) => said(task.mutex) },
  { id: "creator", width: 80, number: true, cell: (task) => task.creator, text: (task) => said(task.creator) },
  { id: "tenant", width: 80, number: true, cell: (task) => task.tenant_id, text: (task) => said(task.tenant_id) },
  { id: "category", width: 110, cell: (task) => task.category, text: (task) => task.category },
  { id: "agent", width: 130, cell: (task) => task.agent_id, text: (task) => said(task.agent_id) },
  {
    id: "created",
    width: 96,
    cell: (task) => <Ago at={task.create_date} />,
    text: (task) => task.create_date,
  },
  { id: "starts", width: 96, cell: (task) => <Ago at={task.start_time} />, text: (task) => task.start_time },
  { id: "started", width: 96, cell: (task) => <Ago at={task.started_at} />, text: (task) => said(task.started_at) },
  {
    id: "finished",
    width: 96,
    cell: (task) => <Ago at={task.finished_at} />,
    text: (task) => said(task.finished_at),
  },
  {
    id: "took",
    width: 64,
    number: true,
    cell: (task, now) => duration(elapsed(task, now)),
    text: (task) => said(task.exec_time),
  },
  {
    id: "error",
    width: 120,
    grow: 320,
    cell: (task) => (task.error_info ? <span data-muted>{headOf(task.error_info)}</span> : null),
    text: (task) => said(task.error_info),
  },
  { id: "correlation", width: 150, cell: (task) => task.correlation_id, text: (task) => said(task.correlation_id) },
];

export const USUAL: ColumnId[] = [
  "id",
  "status",
  "type",
  "ext",
  "lane",
  "priority",
  "attempt",
  "created",
  "took",
  "error",
];
