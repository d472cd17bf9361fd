import { useQuery } from "@tanstack/react-query";
import { Ago } from "@/parts/Ago";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { StateBadge } from "@/parts/StateBadge";
import { eventText } from "@/parts/told";
import { isState, TONES } from "@/services/states";
import { type TaskEvent, taskEventsQuery } from "@/services/tasks";
import { useSpoken, useTexts } from "@/texts";
import classes from "./Timeline.module.css";

const MOST = 200;

/** Everything that happened to a task, the latest first: what, by whom, and why. */
export function Timeline({ id }: { id: string }) {
  const t = useTexts().task.timeline;
  const events = useQuery(taskEventsQuery(id));
  const shown = (events.data ?? []).toReversed();
  return (
    <Panel title={t.title}>
      {events.error ? <ProblemNote error={events.error} retry={() => events.refetch()} /> : null}
      <ol className={classes.timeline}>
        {shown.map((event) => (
          <Moment key={event.id} event={event} />
        ))}
      </ol>
      {(events.data?.length ?? 0) >= MOST ? <p className={classes.more}>{t.more}</p> : null}
    </Panel>
  );
}

function Moment({ event }: { event: TaskEvent }) {
  const { t: texts, language } = useSpoken();
  const t = texts.task.timeline;
  const detail = eventText(event, texts, language);
  const state = event.to && isState(event.to) ? event.to : null;
  return (
    <li data-tone={state ? TONES[state] : "past"}>
      <div className={classes.head}>
        <b>{t.kinds[event.kind] ?? event.kind}</b>
        {state && event.from !== event.to ? <StateBadge status={state} /> : null}
        <span className={classes.when}>
          <Ago at={event.at} />
        </span>
      </div>
      <div className={classes.who}>{t.by(event.actor)}</div>
      {detail ? <div className={classes.detail}>{detail}</div> : null}
    </li>
  );
}
