import { Button, Select, TextInput } from "@mantine/core";
import { IconAlertOctagon, IconRefresh, IconSearchOff, IconWebhook } from "@tabler/icons-react";
import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useSession } from "@/app/session";
import { useAsk } from "@/parts/Ask";
import { Empty } from "@/parts/Empty";
import { LinkText } from "@/parts/links";
import { Page } from "@/parts/Page";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { refusalText } from "@/parts/told";
import { useRedeliver } from "@/parts/useRedeliver";
import {
  type CallbackKind,
  callbackCountsQuery,
  callbacksQuery,
  DELIVERY_STATUSES,
  type DeliveryStatus,
  redeliverMany,
  undeliverableQuery,
} from "@/services/callbacks";
import { may } from "@/services/session";
import { typesQuery } from "@/services/types";
import { useTexts } from "@/texts";
import { Attempts } from "./Attempts";
import { Deliveries } from "./Deliveries";
import classes from "./page.module.css";
import { callbacksRoute } from "./route";
import { type CallbacksSearch, filterOf, opened } from "./search";

export function CallbacksPage() {
  const t = useTexts();
  const words = t.callbacks;
  const search = callbacksRoute.useSearch();
  const navigate = useNavigate();
  const operator = may(useSession(), "operator");
  const list = useInfiniteQuery(callbacksQuery(filterOf(search)));
  const rows = list.data?.pages.flatMap((page) => page.items) ?? [];
  const go = (next: CallbacksSearch) => void navigate({ to: "/callbacks", search: next, replace: true });
  const again = useRedeliver();
  const open = opened(search);
  const { open: _, ...filter } = search;
  const filtered = Object.keys(filter).length > 0;

  return (
    <Page title={words.title} about={words.about}>
      <Undeliverable search={filter} operator={operator} onShow={() => go({ ...filter, status: "undeliverable" })} />
      <Filters search={filter} onChange={go} />
      {list.error ? <ProblemNote error={list.error} retry={() => list.refetch()} /> : null}
      {list.data ? (
        <Panel flush>
          {rows.length > 0 ? (
            <Deliveries
              deliveries={rows}
              onOpen={(each) => go({ ...search, open: `${each.task_id}-${each.id}` })}
              onRedeliver={operator ? (each) => again.mutate(each) : undefined}
            />
          ) : filtered ? (
            <Empty icon={IconSearchOff} title={words.noneMatch}>
              {words.noneMatchAbout}
            </Empty>
          ) : (
            <Empty icon={IconWebhook} title={words.none}>
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
      {open ? <Attempts {...open} onClose={() => go(filter)} /> : null}
    </Page>
  );
}

interface AlarmProps {
  search: CallbacksSearch;
  operator: boolean;
  onShow: () => void;
}

/** Callbacks that are sent again only by a person. */
function Undeliverable({ search, operator, onShow }: AlarmProps) {
  const t = useTexts();
  const words = t.callbacks;
  const ask = useAsk();
  const found = useQuery(undeliverableQuery).data;
  const counts = useQuery(callbackCountsQuery).data;
  const { status, ...filter } = search;
  const again = useMutation({
    mutationFn: () => redeliverMany(filter),
    onSuccess: (items) => {
      const refused = items.filter((each) => each.problem);
      if (items.length > refused.length) confirmDone(words.sentMany(items.length - refused.length));
      const [first] = refused;
      if (first?.problem) complain(words.refusedMany(refused.length, refusalText(first, t) ?? first.problem), t);
    },
    onError: (error) => complain(error, t),
  });
  if (!found || !counts || counts.undeliverable === 0) return null;
  const fits = found.items.filter(
    (each) =>
      (!filter.kind || each.kind === filter.kind) &&
      (!filter.type || each.type === filter.type) &&
      (!filter.host || each.host === filter.host),
  );
  const counted = (count: number) => (found.next_cursor === null ? String(count) : `${count}+`);
  const what = [
    filter.kind ? words.of.kind(words.kind[filter.kind]) : "",
    filter.type ? words.of.type(filter.type) : "",
    filter.host ? words.of.host(filter.host) : "",
  ].join("");
  const start = async () => {
    const body = `${words.redeliverAsk(counted(fits.length), what)} ${words.redeliverAskMost}`;
    if (await ask({ title: words.redeliverAll, body, yes: words.redeliverAll })) again.mutate();
  };
  return (
    <section className={classes.alarm} data-tone="alarm" aria-label={words.status.undeliverable}>
      <IconAlertOctagon size={20} stroke={1.7} />
      <div className={classes.words}>
        <strong>{words.alarm(`${counts.undeliverable}${counts.exact ? "" : "+"}`)}</strong>
        <span>{words.alarmAbout}</span>
      </div>
      {status === "undeliverable" ? null : (
        <Button variant="default" onClick={onShow}>
          {words.show}
        </Button>
      )}
      {operator && fits.length > 0 ? (
        <Button
          variant="default"
          leftSection={<IconRefresh size={14} />}
          loading={again.isPending}
          onClick={() => void start()}
        >
          {words.redeliverAll}
        </Button>
      ) : null}
    </section>
  );
}

interface FiltersProps {
  search: CallbacksSearch;
  onChange: (search: CallbacksSearch) => void;
}

function Filters({ search, onChange }: FiltersProps) {
  const t = useTexts().callbacks;
  const types = useQuery(typesQuery).data ?? [];
  const set = (change: { [K in keyof CallbacksSearch]?: CallbacksSearch[K] | undefined }) =>
    onChange(Object.fromEntries(Object.entries({ ...search, ...change }).filter(([, value]) => value !== undefined)));
  return (
    <div className={classes.filters}>
      <Select
        aria-label={t.filters.status}
        placeholder={t.filters.status}
        data={DELIVERY_STATUSES.map((value) => ({ value, label: t.status[value] }))}
        value={search.status ?? null}
        onChange={(status) => set({ status: (status as DeliveryStatus | null) ?? undefined })}
        clearable
        w={140}
      />
      <Select
        aria-label={t.filters.kind}
        placeholder={t.filters.kind}
        data={(["success", "error"] as CallbackKind[]).map((value) => ({ value, label: t.kind[value] }))}
        value={search.kind ?? null}
        onChange={(kind) => set({ kind: (kind as CallbackKind | null) ?? undefined })}
        clearable
        w={120}
      />
      <Select
        aria-label={t.filters.type}
        placeholder={t.filters.type}
        data={[...new Set([...(search.type ? [search.type] : []), ...types.map((type) => type.code)])]}
        value={search.type ?? null}
        onChange={(type) => set({ type: type ?? undefined })}
        searchable
        clearable
        w={160}
      />
      <Host value={search.host ?? ""} label={t.filters.host} onChange={(host) => set({ host: host || undefined })} />
      {Object.keys(search).length > 0 ? (
        <Button variant="subtle" color="gray" onClick={() => onChange({})}>
          {t.filters.reset}
        </Button>
      ) : null}
    </div>
  );
}

/** Counts with Enter, or when the field is left. */
function Host({ value, label, onChange }: { value: string; label: string; onChange: (host: string) => void }) {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  const send = () => draft.trim() !== value && onChange(draft.trim());
  return (
    <TextInput
      aria-label={label}
      placeholder={label}
      value={draft}
      maxLength={300}
      w={180}
      onChange={(event) => setDraft(event.currentTarget.value)}
      onBlur={send}
      onKeyDown={(event) => event.key === "Enter" && send()}
    />
  );
}
