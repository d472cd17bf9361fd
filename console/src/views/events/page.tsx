import { Button, TextInput } from "@mantine/core";
import { IconActivity, IconPlayerPause, IconPlayerPlay, IconSearch, IconSearchOff } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import { useEvents } from "@/app/live";
import { At } from "@/parts/Ago";
import { Empty } from "@/parts/Empty";
import { Name } from "@/parts/Name";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { Preview } from "@/parts/Preview";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { StateBadge } from "@/parts/StateBadge";
import { eventText } from "@/parts/told";
import { latestEventsQuery } from "@/services/events";
import type { Batch, LiveEvent } from "@/services/live";
import { useSpoken, useTexts } from "@/texts";
import { matches, withMore } from "./feed";
import classes from "./page.module.css";
import { eventsRoute } from "./route";

/** Everything that happens, as it happens. */
export function EventsPage() {
  const t = useTexts();
  const words = t.events;
  const { q = "" } = eventsRoute.useSearch();
  const navigate = useNavigate();
  const latest = useQuery(latestEventsQuery);
  const [since, setSince] = useState<LiveEvent[]>([]);
  const [held, setHeld] = useState<LiveEvent[] | null>(null);
  useEvents(useCallback((batch: Batch) => setSince((before) => withMore(before, batch.events)), []));

  const all = withMore(latest.data ?? [], since.toReversed());
  const shown = (held ?? all).filter((event) => matches(event, q));
  const newer = held ? all.filter((event) => event.id > (held[0]?.id ?? 0)).length : 0;

  return (
    <Page
      title={words.title}
      about={words.about}
      actions={
        <>
          {newer > 0 ? <span className={classes.newer}>{words.held(newer)}</span> : null}
          <TextInput
            aria-label={words.filter}
            placeholder={words.filter}
            leftSection={<IconSearch size={13} />}
            defaultValue={q}
            w={300}
            maw="100%"
            onChange={(event) =>
              void navigate({
                to: "/events",
                search: event.currentTarget.value ? { q: event.currentTarget.value } : {},
                replace: true,
              })
            }
          />
          <Button
            variant="default"
            leftSection={held ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
            onClick={() => setHeld(held ? null : all)}
          >
            {held ? words.goOn : words.hold}
          </Button>
        </>
      }
    >
      {latest.error ? <ProblemNote error={latest.error} retry={() => latest.refetch()} /> : null}
      {latest.data && shown.length === 0 ? (
        q ? (
          <Empty icon={IconSearchOff} title={words.noneMatch} />
        ) : (
          <Empty icon={IconActivity} title={words.none}>
            {words.noneAbout}
          </Empty>
        )
      ) : (
        <Panel flush>
          <Rows
            label={words.title}
            cardsBelow={720}
            heads={[
              { text: words.columns.at, plain: true },
              { text: words.columns.kind, plain: true },
              { text: words.columns.task, plain: true },
              { text: words.columns.change, plain: true },
              { text: words.columns.who },
              { text: words.columns.detail, wide: true, plain: true },
            ]}
          >
            {shown.map((event) => (
              <EventRow key={event.id} event={event} />
            ))}
          </Rows>
        </Panel>
      )}
    </Page>
  );
}

/** A progress that is none of ours is shown as JSON, everything else in words. */
function Detail({ event }: { event: LiveEvent }) {
  const { t, language } = useSpoken();
  const progress = event.params.progress;
  if (typeof progress === "object" && progress !== null && !("total" in progress)) return <Preview value={progress} />;
  return eventText(event, t, language);
}

function EventRow({ event }: { event: LiveEvent }) {
  const t = useTexts();
  const kind = (event.task_id === null ? t.events.acts : t.task.timeline.kinds)[event.kind] ?? event.kind;
  return (
    <tr>
      <td data-muted>
        <At at={event.at} />
      </td>
      <td data-long>{kind}</td>
      <td data-long>
        {event.task_id === null ? null : (
          <Link to="/tasks/$taskId" params={{ taskId: String(event.task_id) }}>
            #{event.task_id}{" "}
            <b>
              <Name of={event.type ?? ""} />
            </b>
          </Link>
        )}
      </td>
      <td>{event.to && event.to !== event.from ? <StateBadge status={event.to} /> : null}</td>
      <td data-long data-muted>
        <Name of={event.actor} />
      </td>
      <td data-long className={classes.detail}>
        <Detail event={event} />
      </td>
    </tr>
  );
}
