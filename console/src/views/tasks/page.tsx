import { IconInbox, IconSearchOff } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import { Empty } from "@/parts/Empty";
import { amount } from "@/parts/formats";
import { Page } from "@/parts/Page";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import type { Task } from "@/services/tasks";
import { useSpoken } from "@/texts";
import { COLUMNS } from "./columns";
import { csvOf, keep } from "./csv";
import { Filters } from "./Filters";
import { allMatching } from "./matching";
import { tasksRoute } from "./route";
import { Selection } from "./Selection";
import type { TasksSearch } from "./search";
import { Table } from "./Table";
import { Columns, Export, Views } from "./Toolbar";
import { useColumns } from "./useColumns";
import { useTaskList } from "./useTaskList";

export function TasksPage() {
  const { t, language } = useSpoken();
  const words = t.tasks;
  const search = tasksRoute.useSearch();
  const navigate = useNavigate();
  const { list, shown } = useTaskList(search);
  const [ids, setIds] = useColumns();
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const columns = useMemo(() => COLUMNS.filter((column) => ids.includes(column.id)), [ids]);

  const go = useCallback(
    (next: TasksSearch) => {
      setSelected(new Set());
      void navigate({ to: "/tasks", search: next, replace: true });
    },
    [navigate],
  );
  const select = useCallback((chosen: number[], on: boolean) => {
    setSelected((before) => {
      const after = new Set(before);
      for (const id of chosen) on ? after.add(id) : after.delete(id);
      return after;
    });
  }, []);
  const exporting = useMutation({
    mutationFn: async (): Promise<Task[]> => {
      const all = await allMatching(search);
      return selected.size > 0 ? all.filter((task) => selected.has(task.id)) : all;
    },
    onSuccess: (tasks) => {
      const heads = columns.map((column) => words.columns[column.id]);
      keep(
        "tasks.csv",
        csvOf(
          heads,
          tasks.map((task) => columns.map((column) => column.text(task))),
        ),
      );
      confirmDone(words.exported(tasks.length));
    },
    onError: (error) => complain(error, t),
  });
  const nothing = !shown.loading && !shown.error && shown.rows.length === 0;

  return (
    <Page
      fill
      title={words.title}
      about={shown.rows.length > 0 ? words.count(amount(shown.rows.length, language), shown.more) : null}
      actions={
        <>
          <Views search={search} onChange={go} />
          <Columns shown={ids} onChange={setIds} />
          <Export onExport={() => exporting.mutate()} loading={exporting.isPending} />
        </>
      }
    >
      <Filters search={search} onChange={go} />
      <Selection
        selected={selected}
        matching={async () => (await allMatching(search)).map((task) => task.id)}
        onSelect={(found) => setSelected(new Set(found))}
        onClear={() => setSelected(new Set())}
      />
      {shown.error ? <ProblemNote error={shown.error} retry={() => void list.top()} /> : null}
      {nothing && Object.keys(search).length > 0 ? (
        <Empty icon={IconSearchOff} title={words.noneMatch}>
          {words.noneMatchAbout}
        </Empty>
      ) : null}
      {nothing && Object.keys(search).length === 0 ? (
        <Empty icon={IconInbox} title={words.none}>
          {words.noneAbout} <code>headgate submit TYPE</code>
        </Empty>
      ) : null}
      {nothing ? null : (
        <Table
          list={list}
          shown={shown}
          columns={columns}
          selected={selected}
          onSelect={select}
          states={search.status}
        />
      )}
    </Page>
  );
}
