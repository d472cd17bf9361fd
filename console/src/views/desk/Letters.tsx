import { Checkbox } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { Ago } from "@/parts/Ago";
import { headOf } from "@/parts/errors";
import { Name } from "@/parts/Name";
import { Preview } from "@/parts/Preview";
import { RowButton } from "@/parts/RowButton";
import { Rows } from "@/parts/Rows";
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

const DEALS: Do[] = ["edit", "replay", "resolve", "discard"];

/** Dead letters as rows: what each died of is seen without a click. */
export function Letters({ tasks, selected, onSelect, onDo }: Props) {
  const t = useTexts().desk;
  const ids = tasks.map((task) => task.id);
  const chosen = ids.filter((id) => selected.has(id)).length;
  return (
    <Rows
      label={t.title}
      cardsBelow={880}
      heads={[
        {
          text: t.all,
          plain: true,
          control: (
            <Checkbox
              aria-label={t.all}
              checked={chosen === ids.length}
              indeterminate={chosen > 0 && chosen < ids.length}
              onChange={(event) => onSelect(ids, event.currentTarget.checked)}
            />
          ),
        },
        { text: t.columns.task, plain: true },
        { text: t.columns.type, plain: true },
        { text: t.columns.error, plain: true },
        { text: t.columns.tries, number: true },
        { text: t.columns.since },
        { text: "" },
      ]}
    >
      {tasks.map((task) => (
        <Letter
          key={task.id}
          task={task}
          selected={selected.has(task.id)}
          onSelect={(on) => onSelect([task.id], on)}
          onDo={onDo}
        />
      ))}
    </Rows>
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
      <td data-long>
        <Name of={task.type} />
      </td>
      <td data-long data-title>
        <div className={classes.died}>
          <span className={classes.why} title={task.error_info ?? undefined}>
            {headOf(task.error_info) || t.noError}
          </span>
          <small>
            <Preview value={task.ext} />
          </small>
        </div>
      </td>
      <td data-number>{task.attempt}</td>
      <td>
        <Ago at={task.update_date} />
      </td>
      <td data-actions>
        {onDo
          ? DEALS.map((verb) => (
              <RowButton
                key={verb}
                label={t.one[verb](task.id)}
                face={t.faces[verb]}
                about={verb === "edit" ? t.editReplay : undefined}
                danger={verb === "discard"}
                onClick={() => onDo(verb, task)}
              />
            ))
          : null}
      </td>
    </tr>
  );
}
