import { Button, Checkbox, Popover, Select, TextInput } from "@mantine/core";
import { IconAdjustmentsHorizontal, IconCalendar, IconChevronDown, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useSession } from "@/app/session";
import { StateBadge } from "@/parts/StateBadge";
import { lanesQuery } from "@/services/lanes";
import type { State } from "@/services/states";
import { typesQuery } from "@/services/types";
import { useTexts } from "@/texts";
import classes from "./Filters.module.css";
import type { TasksSearch } from "./search";

interface Props {
  search: TasksSearch;
  onChange: (search: TasksSearch) => void;
}

/** Which tasks are listed. Everything here stands in the address. */
export function Filters({ search, onChange }: Props) {
  const t = useTexts().tasks.filters;
  const types = useQuery(typesQuery).data ?? [];
  const lanes = useQuery(lanesQuery).data?.items ?? [];
  const set = (change: { [K in keyof TasksSearch]?: TasksSearch[K] | undefined }) =>
    onChange(Object.fromEntries(Object.entries({ ...search, ...change }).filter(([, value]) => value !== undefined)));
  return (
    <div className={classes.filters}>
      <Text value={search.q} label={t.text} icon onChange={(q) => set({ q })} className={classes.text} />
      <States
        chosen={search.status ?? []}
        onChange={(status) => set({ status: status.length > 0 ? status : undefined })}
      />
      <Select
        aria-label={t.type}
        placeholder={t.type}
        data={withChosen(
          types.map((type) => type.code),
          search.type,
        )}
        value={search.type ?? null}
        onChange={(type) => set({ type: type ?? undefined })}
        searchable
        clearable
        w={150}
      />
      <Select
        aria-label={t.lane}
        placeholder={t.lane}
        data={withChosen(
          lanes.map((lane) => lane.name),
          search.lane,
        )}
        value={search.lane ?? null}
        onChange={(lane) => set({ lane: lane ?? undefined })}
        searchable
        clearable
        w={150}
      />
      <When search={search} onChange={set} />
      <More search={search} onChange={set} />
      {Object.keys(search).length > 0 ? (
        <Button variant="subtle" color="gray" onClick={() => onChange({})}>
          {t.reset}
        </Button>
      ) : null}
    </div>
  );
}

function withChosen(known: string[], chosen: string | undefined): string[] {
  return chosen && !known.includes(chosen) ? [chosen, ...known] : known;
}

type Change = (change: { [K in keyof TasksSearch]?: TasksSearch[K] | undefined }) => void;

const GROUPS = {
  waits: ["pending", "queued", "blocked", "paused", "retrying"],
  runs: ["scheduling", "running", "waiting", "notifying"],
  person: ["dead"],
  ended: ["succeeded", "partial", "failed", "resolved", "cancelled"],
} satisfies Record<string, State[]>;

function States({ chosen, onChange }: { chosen: State[]; onChange: (states: State[]) => void }) {
  const t = useTexts();
  const words = t.tasks.filters;
  const toggle = (states: State[], on: boolean) =>
    onChange(on ? [...new Set([...chosen, ...states])] : chosen.filter((state) => !states.includes(state)));
  const label = chosen.length === 0 ? words.states : chosen.map((state) => t.states.words[state]).join(", ");
  return (
    <Popover position="bottom-start" shadow="md">
      <Popover.Target>
        <Button
          variant="default"
          className={classes.choice}
          data-set={chosen.length > 0 || undefined}
          rightSection={<IconChevronDown size={13} />}
        >
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={classes.states}>
        {(Object.keys(GROUPS) as (keyof typeof GROUPS)[]).map((group) => (
          <fieldset key={group}>
            <Checkbox
              label={words.groups[group]}
              checked={GROUPS[group].every((state) => chosen.includes(state))}
              indeterminate={
                GROUPS[group].some((state) => chosen.includes(state)) &&
                !GROUPS[group].every((state) => chosen.includes(state))
              }
              onChange={(event) => toggle(GROUPS[group], event.currentTarget.checked)}
            />
            {GROUPS[group].map((state) => (
              <Checkbox
                key={state}
                ml="md"
                label={<StateBadge status={state} />}
                checked={chosen.includes(state)}
                onChange={(event) => toggle([state], event.currentTarget.checked)}
              />
            ))}
          </fieldset>
        ))}
      </Popover.Dropdown>
    </Popover>
  );
}

function When({ search, onChange }: { search: TasksSearch; onChange: Change }) {
  const t = useTexts().tasks.filters;
  const set = search.within !== undefined || search.created_after !== undefined || search.created_before !== undefined;
  const label = search.within !== undefined ? (t.within[search.within] ?? `${search.within} s`) : t.when;
  const local = (time: string | undefined) =>
    time ? new Date(Date.parse(time) - offset()).toISOString().slice(0, 16) : "";
  const read = (text: string) => (text ? new Date(text).toISOString() : undefined);
  return (
    <Popover position="bottom-start" shadow="md">
      <Popover.Target>
        <Button
          variant="default"
          className={classes.choice}
          data-set={set || undefined}
          leftSection={<IconCalendar size={13} />}
          rightSection={<IconChevronDown size={13} />}
        >
          {label}
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={classes.when}>
        {[3600, 86_400, 604_800].map((seconds) => (
          <Button
            key={seconds}
            variant={search.within === seconds ? "light" : "subtle"}
            justify="flex-start"
            onClick={() => onChange({ within: seconds, created_after: undefined, created_before: undefined })}
          >
            {t.within[seconds]}
          </Button>
        ))}
        <Button
          variant={set ? "subtle" : "light"}
          justify="flex-start"
          onClick={() => onChange({ within: undefined, created_after: undefined, created_before: undefined })}
        >
          {t.anyTime}
        </Button>
        <TextInput
          type="datetime-local"
          label={t.after}
          value={local(search.created_after)}
          onChange={(event) => onChange({ created_after: read(event.currentTarget.value), within: undefined })}
        />
        <TextInput
          type="datetime-local"
          label={t.before}
          value={local(search.created_before)}
          onChange={(event) => onChange({ created_before: read(event.currentTarget.value), within: undefined })}
        />
      </Popover.Dropdown>
    </Popover>
  );
}

function offset(): number {
  return new Date().getTimezoneOffset() * 60_000;
}

function More({ search, onChange }: { search: TasksSearch; onChange: Change }) {
  const t = useTexts().tasks.filters;
  const everybody = useSession().tenant_id === null;
  const number = (text: string | undefined) => (text && Number.isSafeInteger(Number(text)) ? Number(text) : undefined);
  const names = ["creator", "tenant_id", "mutex", "parent_id", "agent_id", "category", "correlation_id"] as const;
  const count = names.filter((name) => search[name] !== undefined).length;
  return (
    <Popover position="bottom-start" shadow="md">
      <Popover.Target>
        <Button
          variant="default"
          className={classes.choice}
          data-set={count > 0 || undefined}
          leftSection={<IconAdjustmentsHorizontal size={13} />}
        >
          {count > 0 ? `${t.more} · ${count}` : t.more}
        </Button>
      </Popover.Target>
      <Popover.Dropdown className={classes.more}>
        <Text value={search.mutex} label={t.mutex} shown onChange={(mutex) => onChange({ mutex })} />
        <Text
          value={search.correlation_id}
          label={t.correlation}
          shown
          onChange={(said) => onChange({ correlation_id: said })}
        />
        <Text value={search.agent_id} label={t.agent} shown onChange={(agent_id) => onChange({ agent_id })} />
        <Text value={search.category} label={t.category} shown onChange={(category) => onChange({ category })} />
        <Text
          value={written(search.creator)}
          label={t.creator}
          shown
          onChange={(said) => onChange({ creator: number(said) })}
        />
        <Text
          value={written(search.parent_id)}
          label={t.parent}
          shown
          onChange={(said) => onChange({ parent_id: number(said) })}
        />
        {everybody ? (
          <Text
            value={written(search.tenant_id)}
            label={t.tenant}
            shown
            onChange={(said) => onChange({ tenant_id: number(said) })}
          />
        ) : null}
      </Popover.Dropdown>
    </Popover>
  );
}

function written(value: number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}

interface TextProps {
  value: string | undefined;
  label: string;
  /** The label is above the field, instead of in it. */
  shown?: boolean;
  icon?: boolean;
  className?: string | undefined;
  onChange: (value: string | undefined) => void;
}

const TYPING_MS = 350;

/** A field whose words count when somebody stops typing. */
function Text({ value = "", label, shown, icon, className, onChange }: TextProps) {
  const [draft, setDraft] = useState(value);
  useEffect(() => setDraft(value), [value]);
  useEffect(() => {
    if (draft === value) return;
    const timer = setTimeout(() => onChange(draft.trim() || undefined), TYPING_MS);
    return () => clearTimeout(timer);
  }, [draft, value, onChange]);
  return (
    <TextInput
      className={className}
      {...(shown ? { label } : { "aria-label": label, placeholder: label })}
      leftSection={icon ? <IconSearch size={13} /> : undefined}
      value={draft}
      maxLength={255}
      onChange={(event) => setDraft(event.currentTarget.value)}
      onKeyDown={(event) => event.key === "Enter" && onChange(draft.trim() || undefined)}
    />
  );
}
