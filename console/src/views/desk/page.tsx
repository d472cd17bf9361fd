import { Button } from "@mantine/core";
import { IconMoodSmile, IconSearchOff } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "@/app/session";
import { EditReplay } from "@/parts/EditReplay";
import { Empty } from "@/parts/Empty";
import { amount } from "@/parts/formats";
import { LinkText } from "@/parts/links";
import { Name } from "@/parts/Name";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { allLetters, type DeskVerb, type ErrorGroup, errorGroupsQuery, lettersQuery } from "@/services/desk";
import { may } from "@/services/session";
import type { Task } from "@/services/tasks";
import { useSpoken, useTexts } from "@/texts";
import { Deal } from "./Deal";
import { Filters } from "./Filters";
import { type Do, Letters } from "./Letters";
import classes from "./page.module.css";
import { type DeskSearch, deskRoute } from "./route";

const MOST_MATCHING = 2_000;
const VERBS: DeskVerb[] = ["replay", "resolve", "discard"];

/** What is about to be done, and to which. */
interface Act {
  verb: Do;
  ids: number[];
  task: Task | null;
}

/** Dead letters: what gave up, why, and what a person does about it. */
export function DeskPage() {
  const t = useTexts();
  const words = t.desk;
  const search = deskRoute.useSearch();
  const navigate = useNavigate();
  const operator = may(useSession(), "operator");
  const list = useInfiniteQuery(lettersQuery(search));
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const [act, setAct] = useState<Act | null>(null);
  const tasks = list.data?.pages.flatMap((page) => page.items) ?? [];
  const clear = () => setSelected(new Set());
  const go = (next: DeskSearch) => {
    clear();
    void navigate({ to: "/desk", search: next, replace: true });
  };
  const select = (ids: number[], on: boolean) => {
    const next = new Set(selected);
    for (const id of ids) on ? next.add(id) : next.delete(id);
    setSelected(next);
  };
  const matching = useMutation({
    mutationFn: () => allLetters(search, MOST_MATCHING),
    onSuccess: (ids) => {
      setSelected(new Set(ids));
      if (ids.length === MOST_MATCHING) confirmDone(words.matchingMost(ids.length));
    },
    onError: (error) => complain(error, t),
  });
  const begin = (verb: Do) => {
    const ids = [...selected];
    const [only] = ids;
    setAct({ verb, ids, task: ids.length === 1 ? (tasks.find((task) => task.id === only) ?? null) : null });
  };
  const done = () => {
    setAct(null);
    clear();
  };

  return (
    <Page title={words.title} about={words.about}>
      <Filters search={search} onChange={go} />
      <Groups
        search={search}
        onChoose={({ type, contains }) => go({ ...search, type, ...(contains ? { error: contains } : {}) })}
      />
      {operator && selected.size > 0 ? (
        <div className={classes.bar} role="toolbar" aria-label={words.selected(selected.size)}>
          <strong>{words.selected(selected.size)}</strong>
          {list.hasNextPage ? (
            <Button variant="subtle" loading={matching.isPending} onClick={() => matching.mutate()}>
              {words.selectMatching}
            </Button>
          ) : null}
          <Button variant="default" onClick={() => begin("edit")}>
            {words.editReplay}
          </Button>
          {VERBS.map((verb) => (
            <Button key={verb} variant="default" onClick={() => begin(verb)}>
              {words.verbs[verb]}
            </Button>
          ))}
          <Button variant="subtle" color="gray" onClick={clear}>
            {words.clear}
          </Button>
        </div>
      ) : null}
      {list.error ? <ProblemNote error={list.error} retry={() => list.refetch()} /> : null}
      {list.data ? (
        <Panel flush>
          {tasks.length > 0 ? (
            <Letters
              tasks={tasks}
              selected={selected}
              onSelect={select}
              onDo={operator ? (verb, task) => setAct({ verb, ids: [task.id], task }) : undefined}
            />
          ) : Object.keys(search).length > 0 ? (
            <Empty icon={IconSearchOff} title={words.noneMatch}>
              {words.noneMatchAbout}
            </Empty>
          ) : (
            <Empty icon={IconMoodSmile} title={words.none}>
              {words.noneAbout}{" "}
              <LinkText underline="always" to="/types">
                {words.noneLink}
              </LinkText>
            </Empty>
          )}
          {list.hasNextPage ? (
            <div className={classes.more}>
              <Button variant="subtle" loading={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
                {words.more}
              </Button>
            </div>
          ) : null}
        </Panel>
      ) : null}
      {act && act.verb === "edit" ? (
        <EditReplay ids={act.ids} task={act.task} onClose={() => setAct(null)} onDone={done} />
      ) : null}
      {act && act.verb !== "edit" ? (
        <Deal verb={act.verb} ids={act.ids} onClose={() => setAct(null)} onDone={done} />
      ) : null}
    </Page>
  );
}

const FEWEST = 2;

/** What went wrong, and how often, over all that match: each leads to its letters. */
function Groups({ search, onChoose }: { search: DeskSearch; onChoose: (group: ErrorGroup) => void }) {
  const { t, language } = useSpoken();
  const found = useQuery(errorGroupsQuery(search)).data;
  if (!found || found.items.length < FEWEST) return null;
  return (
    <section className={classes.groups} aria-label={t.desk.groups}>
      {found.items.map((group) => (
        <button
          key={`${group.type} ${group.error}`}
          type="button"
          className={classes.group}
          title={group.error}
          onClick={() => onChoose(group)}
        >
          <b>
            <Name of={t.desk.group(`${amount(group.count, language)}${found.exact ? "" : "+"}`, group.type)} />
          </b>
          <span>{group.error || t.desk.noError}</span>
        </button>
      ))}
    </section>
  );
}
