import { IconLock, IconLockOpen2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Ago } from "@/parts/Ago";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { reasonText } from "@/parts/told";
import { type State, stateOf } from "@/services/states";
import { type Task, type Why, whyQuery } from "@/services/tasks";
import { useTexts } from "@/texts";
import classes from "./WhyPanel.module.css";

const WAITS: ReadonlySet<State> = new Set<State>([
  "pending",
  "blocked",
  "queued",
  "scheduling",
  "paused",
  "retrying",
  "waiting",
  "notifying",
]);

const HOLDS_CHANGE_MS = 3_000; // a handler takes and leaves a resource without an event

/** Gate by gate, what a task waits for, who holds it up, and when it will likely start. Of one that runs, what its
 * handler holds, or waits to hold, for a part of its run. */
export function WhyPanel({ task }: { task: Task }) {
  const state = stateOf(task.status);
  if (state === "running") return <Gates id={String(task.id)} holdsOnly />;
  return WAITS.has(state) ? <Gates id={String(task.id)} /> : null;
}

function Gates({ id, holdsOnly = false }: { id: string; holdsOnly?: boolean }) {
  const texts = useTexts();
  const t = texts.task.why;
  const why = useQuery({ ...whyQuery(id), refetchInterval: holdsOnly ? HOLDS_CHANGE_MS : false });
  const gates = (why.data?.gates ?? []).filter((gate) => !holdsOnly || gate.name === "hold");
  if (holdsOnly && gates.length === 0) return null;
  return (
    <Panel title={holdsOnly ? t.holds : t.title} flush>
      {why.error ? <ProblemNote error={why.error} retry={() => why.refetch()} /> : null}
      <ul className={classes.gates}>
        {gates.map((gate) => (
          <li
            key={`${gate.name} ${gate.reason}`}
            data-tone={gate.open ? "good" : "warn"}
            data-open={gate.open || undefined}
          >
            {gate.open ? <IconLockOpen2 size={16} stroke={1.7} /> : <IconLock size={16} stroke={1.7} />}
            <strong>{t.gates[gate.name] ?? gate.name}</strong>
            <span className={classes.word}>{gate.open ? t.open : t.shut}</span>
            <span className={classes.reason}>
              {reasonText(gate, texts)}
              {gate.until ? (
                <>
                  {" · "}
                  <Ago at={gate.until} />
                </>
              ) : null}
              <Holders ids={gate.holders ?? []} />
            </span>
          </li>
        ))}
      </ul>
      {why.data && !holdsOnly && gates.every((gate) => gate.open) ? <p className={classes.ready}>{t.ready}</p> : null}
      {why.data?.forecast ? <Forecast forecast={why.data.forecast} /> : null}
    </Panel>
  );
}

const MOST = 12;

function Holders({ ids }: { ids: number[] }) {
  const t = useTexts().task.why;
  if (ids.length === 0) return null;
  return (
    <span className={classes.holders}>
      {t.holders}{" "}
      {ids.slice(0, MOST).map((id) => (
        <Link key={id} to="/tasks/$taskId" params={{ taskId: String(id) }}>
          #{id}
        </Link>
      ))}
      {ids.length > MOST ? "…" : null}
    </span>
  );
}

function Forecast({ forecast }: { forecast: NonNullable<Why["forecast"]> }) {
  const texts = useTexts();
  const t = texts.task.why;
  return (
    <p className={classes.forecast}>
      <span>
        {forecast.at ? (
          <>
            {t.starts} <b>{(forecast.in_seconds ?? 0) < 1 ? t.soon : <Ago at={forecast.at} />}</b>
          </>
        ) : (
          t.unknown
        )}
      </span>
      <span className={classes.dim}>
        {reasonText(forecast, texts)}
        {forecast.ahead > 0 ? ` · ${t.ahead(forecast.ahead)}` : ""}
      </span>
    </p>
  );
}
