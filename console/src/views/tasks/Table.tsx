import { Checkbox } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useShortcuts } from "@/app/shortcuts";
import { useNow } from "@/parts/useNow";
import type { State } from "@/services/states";
import type { Task } from "@/services/tasks";
import { useTexts } from "@/texts";
import type { Column } from "./columns";
import type { Shown, TaskList } from "./list";
import classes from "./Table.module.css";

const ROW = 34;

interface Props {
  list: TaskList;
  shown: Shown;
  columns: Column[];
  selected: ReadonlySet<number>;
  onSelect: (ids: number[], chosen: boolean) => void;
  /** States that the list is about; what has left them is dimmed until it is gone. */
  states: State[] | undefined;
}

/** Rows on the screen only, however many there are. `j` and `k` move, `x` selects, Enter opens. */
export function Table({ list, shown, columns, selected, onSelect, states }: Props) {
  const t = useTexts().tasks;
  const navigate = useNavigate();
  const frame = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(-1);
  const { rows, more } = shown;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW,
    overscan: 8,
  });
  const items = virtual.getVirtualItems();
  const first = items[0]?.index ?? 0;
  const last = items.at(-1)?.index ?? 0;
  const scrolled = (virtual.scrollOffset ?? 0) > ROW;

  // biome-ignore lint/correctness/useExhaustiveDependencies: another list is read from its top
  useEffect(() => {
    if (frame.current) frame.current.scrollTop = 0;
    setAt(-1);
  }, [list]);
  useEffect(() => list.look(first, last, !scrolled), [list, first, last, scrolled]);
  useEffect(() => {
    if (more && last >= rows.length - 40) void list.more();
  }, [list, last, rows.length, more]);

  const move = useCallback(
    (step: number) =>
      setAt((before) => {
        const next = Math.max(0, Math.min(rows.length - 1, before + step));
        virtual.scrollToIndex(next);
        return next;
      }),
    [rows.length, virtual],
  );
  const current = rows[at];
  useShortcuts(
    useMemo(
      () => [
        { keys: "j", label: t.keys.down, run: () => move(1) },
        { keys: "k", label: t.keys.up, run: () => move(-1) },
        { keys: "x", label: t.keys.select, run: () => current && onSelect([current.id], !selected.has(current.id)) },
        {
          keys: "Enter",
          label: t.keys.open,
          run: () => current && void navigate({ to: "/tasks/$taskId", params: { taskId: String(current.id) } }),
        },
      ],
      [t, move, current, onSelect, selected, navigate],
    ),
  );

  const all = rows.length > 0 && rows.every((row) => selected.has(row.id));
  const grid = `2.25rem ${columns.map((column) => `minmax(${column.width}px, ${column.grow ?? column.width}fr)`).join(" ")}`;
  return (
    <div className={classes.frame} ref={frame} data-testid="tasks">
      {scrolled && shown.fresh > 0 ? (
        <button type="button" className={classes.fresh} onClick={() => virtual.scrollToOffset(0)}>
          {t.fresh(shown.fresh)}
        </button>
      ) : null}
      <table aria-label={t.title} aria-rowcount={more ? -1 : rows.length + 1} className={classes.table}>
        <thead className={classes.heads}>
          <tr className={classes.row} style={{ gridTemplateColumns: grid }}>
            <th scope="col">
              <Checkbox
                aria-label={t.selectAll}
                checked={all}
                indeterminate={!all && selected.size > 0}
                onChange={() =>
                  onSelect(
                    rows.map((row) => row.id),
                    !all,
                  )
                }
              />
            </th>
            {columns.map((column) => (
              <th key={column.id} scope="col" data-number={column.number || undefined}>
                {t.columns[column.id]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody className={classes.body} style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const task = rows[item.index];
            return task ? (
              <Row
                key={task.id}
                task={task}
                top={item.start}
                grid={grid}
                index={item.index}
                columns={columns}
                current={item.index === at}
                chosen={selected.has(task.id)}
                leaving={states !== undefined && !states.includes(task.status as State)}
                onSelect={onSelect}
                label={t.selectOne(task.id)}
              />
            ) : null;
          })}
        </tbody>
      </table>
    </div>
  );
}

interface RowProps {
  task: Task;
  top: number;
  grid: string;
  index: number;
  columns: Column[];
  current: boolean;
  chosen: boolean;
  leaving: boolean;
  onSelect: (ids: number[], chosen: boolean) => void;
  label: string;
}

const Row = memo(function Row({
  task,
  top,
  grid,
  index,
  columns,
  current,
  chosen,
  leaving,
  onSelect,
  label,
}: RowProps) {
  const now = useNow();
  return (
    <tr
      aria-rowindex={index + 2}
      data-chosen={chosen || undefined}
      className={classes.row}
      data-current={current || undefined}
      data-leaving={leaving || undefined}
      style={{ transform: `translateY(${top}px)`, gridTemplateColumns: grid }}
    >
      <td>
        <input
          type="checkbox"
          className={classes.box}
          aria-label={label}
          checked={chosen}
          onChange={() => onSelect([task.id], !chosen)}
        />
      </td>
      {columns.map((column) => (
        <td key={column.id} data-number={column.number || undefined}>
          {column.cell(task, now)}
        </td>
      ))}
    </tr>
  );
});
