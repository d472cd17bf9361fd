import { Button, Select, TextInput } from "@mantine/core";
import { IconArrowsSplit2, IconSearchOff } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { Empty } from "@/parts/Empty";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { PauseEverything } from "@/parts/PauseEverything";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import {
  busyQuery,
  LANES,
  queueStatsQuery,
  REQUEST_TYPES,
  type RequestFilter,
  type RequestJob,
  type RequestStatus,
  requestsQuery,
  SHOWN_AS,
} from "@/services/requests";
import { may, maySteer } from "@/services/session";
import { useTexts } from "@/texts";
import { LaneCard } from "./LaneCard";
import classes from "./page.module.css";
import { RequestRow } from "./RequestRow";
import { queueRoute } from "./route";
import { Start } from "./Start";

const MOST_ASKED = 200;

/** The request queue: its two lanes, what can be started, and every request with what can be done to it. */
export function QueuePage() {
  const t = useTexts().queue;
  const session = useSession();
  const filter = queueRoute.useSearch();
  const stats = useQuery(queueStatsQuery);
  const requests = useInfiniteQuery(requestsQuery(filter));
  const rows = requests.data?.pages.flatMap((page) => page.items) ?? [];
  const busy = useQuery(busyQuery(subscriptionsOf(rows))).data;
  return (
    <Page title={t.title} about={t.about} actions={maySteer(session) ? <PauseEverything /> : null}>
      {stats.error ? <ProblemNote error={stats.error} retry={() => stats.refetch()} /> : null}
      <div className={classes.top}>
        {LANES.map((lane) => (
          <LaneCard key={lane} lane={lane} stats={stats.data} steer={maySteer(session)} />
        ))}
        {may(session, "submit") ? <Start /> : null}
      </div>
      <Filters filter={filter} />
      {requests.error ? <ProblemNote error={requests.error} retry={() => requests.refetch()} /> : null}
      {requests.data && rows.length === 0 ? (
        Object.keys(filter).length > 0 ? (
          <Empty icon={IconSearchOff} title={t.noneMatch} />
        ) : (
          <Empty icon={IconArrowsSplit2} title={t.none}>
            {t.noneAbout} <code>POST /api/requests/enqueue</code>
          </Empty>
        )
      ) : (
        <Panel flush>
          <Rows
            label={t.title}
            cardsBelow={1000}
            heads={[
              { text: t.columns.id, plain: true },
              { text: t.columns.type, plain: true },
              { text: t.columns.subscription },
              { text: t.columns.cookie },
              { text: t.columns.status, plain: true },
              { text: t.columns.priority, number: true },
              { text: t.columns.attempts, number: true },
              { text: t.columns.created },
              { text: t.columns.started },
              { text: t.columns.finished },
              { text: t.columns.error, plain: true },
              { text: "" },
            ]}
          >
            {rows.map((job) => (
              <RequestRow key={job.id} job={job} busy={busy} />
            ))}
          </Rows>
        </Panel>
      )}
      {requests.hasNextPage ? (
        <Button
          variant="default"
          className={classes.more}
          loading={requests.isFetchingNextPage}
          onClick={() => void requests.fetchNextPage()}
        >
          {t.more}
        </Button>
      ) : null}
    </Page>
  );
}

/** The subscriptions of the newest requests: as many as the server tells of at once. */
function subscriptionsOf(rows: RequestJob[]): number[] {
  const ids = new Set(rows.map((job) => job.subscription_id).filter((id) => id !== null));
  return [...ids].slice(0, MOST_ASKED).sort((one, other) => one - other);
}

function Filters({ filter }: { filter: RequestFilter }) {
  const t = useTexts().queue;
  const navigate = useNavigate();
  const set = (name: keyof RequestFilter, value: string | number | null) => {
    const { [name]: _, ...rest } = filter;
    void navigate({ to: "/queue", search: value === null ? rest : { ...rest, [name]: value }, replace: true });
  };
  return (
    <div className={classes.filters}>
      <Select
        aria-label={t.filters.lane}
        placeholder={t.filters.lane}
        data={LANES.map((value) => ({ value, label: t.lanes[value] }))}
        value={filter.lane ?? null}
        onChange={(lane) => set("lane", lane)}
        clearable
      />
      <Select
        aria-label={t.filters.status}
        placeholder={t.filters.status}
        data={(Object.keys(SHOWN_AS) as RequestStatus[]).map((value) => ({ value, label: t.statuses[value] }))}
        value={filter.status ?? null}
        onChange={(status) => set("status", status)}
        clearable
      />
      <Select
        aria-label={t.filters.type}
        placeholder={t.filters.type}
        data={REQUEST_TYPES.map((value) => ({ value, label: t.types[value] }))}
        value={filter.type ?? null}
        onChange={(type) => set("type", type)}
        clearable
      />
      <TextInput
        aria-label={t.filters.subscription}
        placeholder={t.filters.subscription}
        inputMode="numeric"
        value={filter.subscription_id ?? ""}
        onChange={(event) => {
          const said = event.currentTarget.value.replace(/\D/g, "");
          set("subscription_id", said === "" ? null : Number(said));
        }}
      />
    </div>
  );
}
