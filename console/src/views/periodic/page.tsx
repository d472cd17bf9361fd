import { Button, Select, Switch } from "@mantine/core";
import { IconCalendarRepeat, IconPlus, IconSearchOff } from "@tabler/icons-react";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useSession } from "@/app/session";
import { useShortcuts } from "@/app/shortcuts";
import { Ago } from "@/parts/Ago";
import { Empty } from "@/parts/Empty";
import { Name } from "@/parts/Name";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { RowButton } from "@/parts/RowButton";
import { Rows } from "@/parts/Rows";
import { type Schedule, type ScheduleStatus, schedulesQuery } from "@/services/periodic";
import { may } from "@/services/session";
import { typesQuery } from "@/services/types";
import { useTexts } from "@/texts";
import { Form } from "./Form";
import { OneSchedule } from "./OneSchedule";
import classes from "./page.module.css";
import { type PeriodicSearch, periodicRoute } from "./route";
import { StatusBadge } from "./StatusBadge";
import { useActs } from "./useActs";

export function PeriodicPage() {
  const t = useTexts().periodic;
  const search = periodicRoute.useSearch();
  const navigate = useNavigate();
  const operator = may(useSession(), "operator");
  const list = useInfiniteQuery(schedulesQuery(search.status, search.type));
  const rows = list.data?.pages.flatMap((page) => page.items) ?? [];
  const { id, edit, ...filter } = search;
  const go = (next: PeriodicSearch) => void navigate({ to: "/periodic", search: next, replace: true });

  return (
    <Page
      title={t.title}
      about={t.about}
      actions={operator ? <Make onMake={() => go({ ...filter, edit: "new" })} /> : null}
    >
      <Filters search={filter} onChange={go} />
      {list.error ? <ProblemNote error={list.error} retry={() => list.refetch()} /> : null}
      {list.data ? (
        <Panel flush>
          {rows.length > 0 ? (
            <Schedules rows={rows} operator={operator} onOpen={(each) => go({ ...filter, id: each })} />
          ) : Object.keys(filter).length > 0 ? (
            <Empty icon={IconSearchOff} title={t.noneMatch}>
              {t.noneMatchAbout}
            </Empty>
          ) : (
            <Empty icon={IconCalendarRepeat} title={t.none}>
              {t.noneAbout}
            </Empty>
          )}
          {list.hasNextPage ? (
            <div className={classes.more}>
              <Button variant="subtle" loading={list.isFetchingNextPage} onClick={() => void list.fetchNextPage()}>
                {t.more}
              </Button>
            </div>
          ) : null}
        </Panel>
      ) : null}
      {edit === "new" ? (
        <Form id={null} onClose={() => go(filter)} onSaved={(made) => go({ ...filter, id: made })} />
      ) : null}
      {id && edit !== "new" ? (
        edit === "this" ? (
          <Form id={id} onClose={() => go({ ...filter, id })} onSaved={() => go({ ...filter, id })} />
        ) : (
          <OneSchedule id={id} onClose={() => go(filter)} onEdit={() => go({ ...filter, id, edit: "this" })} />
        )
      ) : null}
    </Page>
  );
}

function Make({ onMake }: { onMake: () => void }) {
  const t = useTexts().periodic;
  useShortcuts([{ keys: "n", label: t.make, run: onMake }]);
  return (
    <Button leftSection={<IconPlus size={14} />} onClick={onMake}>
      {t.make}
    </Button>
  );
}

function Filters({ search, onChange }: { search: PeriodicSearch; onChange: (search: PeriodicSearch) => void }) {
  const t = useTexts().periodic;
  const types = useQuery(typesQuery).data ?? [];
  const { status, type } = search;
  return (
    <div className={classes.filters}>
      <Select
        aria-label={t.anyStatus}
        placeholder={t.anyStatus}
        data={(["online", "offline", "new"] as ScheduleStatus[]).map((value) => ({ value, label: t.status[value] }))}
        value={status ?? null}
        onChange={(next) =>
          onChange({ ...(next ? { status: next as ScheduleStatus } : {}), ...(type ? { type } : {}) })
        }
        clearable
        w={140}
      />
      <Select
        aria-label={t.anyType}
        placeholder={t.anyType}
        data={[...new Set([...(type ? [type] : []), ...types.map((each) => each.code)])]}
        value={type ?? null}
        onChange={(next) => onChange({ ...(status ? { status } : {}), ...(next ? { type: next } : {}) })}
        searchable
        clearable
        w={180}
      />
    </div>
  );
}

interface SchedulesProps {
  rows: Schedule[];
  operator: boolean;
  onOpen: (id: number) => void;
}

function Schedules({ rows, operator, onOpen }: SchedulesProps) {
  const t = useTexts().periodic;
  const heads = t.columns;
  return (
    <Rows
      label={t.title}
      cardsBelow={820}
      heads={[
        { text: heads.what, plain: true },
        { text: heads.status, plain: true },
        { text: heads.when },
        { text: heads.zone },
        { text: heads.next },
        { text: heads.rules },
        { text: heads.actions },
      ]}
    >
      {rows.map((each) => (
        <Row key={each.id} schedule={each} operator={operator} onOpen={() => onOpen(each.id)} />
      ))}
    </Rows>
  );
}

function Row({ schedule, operator, onOpen }: { schedule: Schedule; operator: boolean; onOpen: () => void }) {
  const t = useTexts().periodic;
  const { turn, fire } = useActs(schedule.id);
  const online = schedule.status === "online";
  const told = schedule.http ? `${schedule.http.method} ${schedule.http.url}` : (schedule.task.name ?? takes(schedule));
  const about = told ? `#${schedule.id} · ${told}` : `#${schedule.id}`;
  return (
    <tr>
      <td data-long data-title>
        <div className={classes.what}>
          <span>
            <button type="button" className={classes.name} onClick={onOpen}>
              <Name of={schedule.type} />
            </button>
          </span>
          <span className={classes.about} title={about}>
            {about}
          </span>
        </div>
      </td>
      <td>
        <StatusBadge status={schedule.status} />
      </td>
      <td>
        <code className={classes.cron}>{schedule.cron_expressions}</code>
      </td>
      <td data-long>
        <Name of={schedule.timezone} />
      </td>
      <td data-muted={schedule.next_tick === null || undefined}>
        <Ago at={schedule.next_tick} />
      </td>
      <td data-muted>
        {t.missed[schedule.missed]} · {t.overlap[schedule.overlap]}
      </td>
      <td data-actions>
        {operator ? (
          <span className={classes.buttons}>
            <RowButton
              label={t.triggerOne(schedule.id)}
              face={t.triggerFace}
              loading={fire.isPending}
              onClick={() => fire.mutate()}
            />
            <Switch
              aria-label={online ? t.goOffline(schedule.id) : t.goOnline(schedule.id)}
              checked={online}
              disabled={turn.isPending}
              onChange={() => turn.mutate(!online)}
            />
          </span>
        ) : null}
      </td>
    </tr>
  );
}

/** The arguments of its tasks, if they have any: what tells two schedules of one type apart. */
function takes({ ext }: Schedule): string {
  const text = JSON.stringify(ext);
  return text === "{}" || text === "null" ? "" : text;
}
