import { ActionIcon, Checkbox, Tooltip } from "@mantine/core";
import { IconCheck, IconPencil, IconPlayerPlay, IconTrash } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import type { ComponentType } from "react";
import { Ago } from "@/parts/Ago";
import { headOf } from "@/parts/errors";
import { Preview } from "@/parts/Preview";
import rows from "@/parts/Rows.module.css";
import type { DeskVerb } from "@/services/desk";
import type { Task } from "@/services/tasks";
import { useTexts } from "@/texts";
import classes from "./page.module.css";

export type Do = DeskVerb | "edit";

interface Props {
  tasks: Task[];
  selected: ReadonlySet<number>;
  onSelect: (ids: number[], on: boolean) => void;
  /** Left out for those who may not. */
  onDo?: ((verb: Do, task: Task) => void) | undefined;
}

const ICONS: Record<Do, ComponentType<{ size?: number | string }>> = {
  edit: IconPencil,
  replay: IconPlayerPlay,
  resolve: IconCheck,
  discard: IconTrash,
};

/** Dead letters as rows: what each died of is seen without a click. */
export function Letters({ tasks, selected, onSelect, onDo }: Props) {
  const t = useTexts().desk;
  const ids = tasks.map((task) => task.id);
  const chosen = ids.filter((id) => selected.has(id)).length;
  return (
    <div className={classes.list}>
      <table className={rows.rows} aria-label={t.title}>
        <thead>
          <tr>
            <th scope="col">
              <Checkbox
                aria-label={t.all}
                checked={chosen === ids.length}
                indeterminate={chosen > 0 && chosen < ids.length}
                onChange={(event) => onSelect(ids, event.currentTarget.checked)}
              />
            </th>
            <th scope="col">{t.columns.task}</th>
            <th scope="col">{t.columns.type}</th>
            <th scope="col" data-wide>
              {t.columns.error}
            </th>
            <th scope="col" data-number>
              {t.columns.tries}
            </th>
            <th scope="col">{t.columns.since}</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {tasks.map((task) => (
            <Letter
              key={task.id}
              task={task}
              selected={selected.has(task.id)}
              onSelect={(on) => onSelect([task.id], on)}
              onDo={onDo}
            />
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface LetterProps {
  task: Task;
  selected: boolean;
  onSelect: (on: boolean) => void;
  onDo?: Props["onDo"];
}

function Letter({ task, selected, onSelect, onDo }: LetterProps) {
  const t = useTexts().desk;
  return (
    <tr className={classes.letter} data-selected={selected || undefined}>
      <td>
        <Checkbox
          aria-label={t.select(task.id)}
          checked={selected}
          onChange={(event) => onSelect(event.currentTarget.checked)}
        />
      </td>
      <td>
        <Link to="/tasks/$taskId" params={{ taskId: String(task.id) }}>
          {task.id}
        </Link>
      </td>
      <td>{task.type}</td>
      <td>
        <div className={classes.died}>
          <span className={classes.why} title={task.error_info ?? undefined}>
            {headOf(task.error_info) || t.noError}
          </span>
          <small>
            <span className={classes.phone}>{task.type} </span>
            <Preview value={task.ext} />
          </small>
        </div>
      </td>
      <td data-number>{task.attempt}</td>
      <td>
        <Ago at={task.update_date} />
      </td>
      <td data-number>
        {onDo
          ? (Object.keys(ICONS) as Do[]).map((verb) => {
              const Icon = ICONS[verb];
              return (
                <Tooltip key={verb} label={verb === "edit" ? t.editReplay : t.verbs[verb]}>
                  <ActionIcon aria-label={t.one[verb](task.id)} onClick={() => onDo(verb, task)}>
                    <Icon size={15} />
                  </ActionIcon>
                </Tooltip>
              );
            })
          : null}
      </td>
    </tr>
  );
}
