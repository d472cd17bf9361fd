import { Autocomplete, Select, Switch, TagsInput, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { duration } from "@/parts/formats";
import { lanesQuery } from "@/services/lanes";
import type { Strategy } from "@/services/types";
import { useTexts } from "@/texts";
import { type Draft, delays, KEYS, type Numeric, type PERIODS, type Wrong } from "./draft";
import classes from "./page.module.css";

export interface FieldsProps {
  draft: Draft;
  wrong: Wrong;
  set: (change: Partial<Draft>) => void;
}

/** What is wrong with a field, in words. */
export function useSays(wrong: Wrong): (name: keyof Draft) => string | null {
  const words = useTexts().types.form.wrong;
  return (name) => {
    const problem = wrong[name];
    return problem ? words[problem] : null;
  };
}

export function Basics({ draft, wrong, set, isNew }: FieldsProps & { isNew: boolean }) {
  const t = useTexts().types.form;
  const says = useSays(wrong);
  const lanes = useQuery(lanesQuery).data?.items ?? [];
  return (
    <fieldset className={classes.group}>
      <legend>{t.basics}</legend>
      <div className={classes.pair}>
        {isNew ? (
          <TextInput
            label={t.code}
            value={draft.code}
            maxLength={255}
            error={says("code")}
            onChange={(event) => set({ code: event.currentTarget.value })}
            data-autofocus
          />
        ) : null}
        <TextInput
          label={t.name}
          value={draft.name}
          maxLength={255}
          onChange={(event) => set({ name: event.currentTarget.value })}
        />
        <TextInput
          label={t.category}
          value={draft.category}
          maxLength={255}
          onChange={(event) => set({ category: event.currentTarget.value })}
        />
        <Autocomplete
          size="xs"
          label={t.lane}
          description={t.laneAbout}
          data={lanes.map((lane) => lane.name)}
          value={draft.lane}
          maxLength={255}
          error={says("lane")}
          onChange={(lane) => set({ lane })}
        />
        <TagsInput
          size="xs"
          label={t.uses}
          description={t.usesAbout}
          value={draft.uses}
          maxTags={50}
          onChange={(uses) => set({ uses })}
        />
        <Amount name="priority" about={t.priorityAbout} draft={draft} wrong={wrong} set={set} />
        <Amount name="timeout" about={t.timeoutAbout} draft={draft} wrong={wrong} set={set} />
      </div>
      <div className={classes.pair}>
        {KEYS.map((name) => (
          <TextInput
            key={name}
            label={t.keys[name]}
            description={t.keysAbout[name]}
            placeholder="card:{card_id}"
            value={draft[name]}
            maxLength={255}
            error={says(name)}
            onChange={(event) => set({ [name]: event.currentTarget.value })}
          />
        ))}
      </div>
    </fieldset>
  );
}

interface AmountProps extends FieldsProps {
  name: Numeric | (typeof PERIODS)[number];
  about?: string;
}

export function Amount({ name, about, draft, wrong, set }: AmountProps) {
  const t = useTexts().types.form;
  const says = useSays(wrong);
  return (
    <TextInput
      label={t[name]}
      description={about}
      inputMode="decimal"
      value={draft[name]}
      error={says(name)}
      onChange={(event) => set({ [name]: event.currentTarget.value })}
    />
  );
}

const NUMBERS: Record<Strategy, Numeric[]> = {
  none: [],
  fixed_period: ["retries", "interval"],
  sequence: ["retries"],
  exponential: ["retries", "initial", "factor", "cap", "jitter"],
};

/** What becomes of a task that fails, with the delays that follow from it. */
export function Failing({ draft, wrong, set }: FieldsProps) {
  const words = useTexts().types;
  const t = words.form;
  const says = useSays(wrong);
  return (
    <fieldset className={classes.group}>
      <legend>{t.retry}</legend>
      <div className={classes.pair}>
        <Select
          label={t.strategy}
          data={(Object.keys(words.strategies) as Strategy[]).map((value) => ({
            value,
            label: words.strategies[value],
          }))}
          value={draft.strategy}
          allowDeselect={false}
          onChange={(strategy) => set({ strategy: (strategy ?? "none") as Strategy })}
        />
        {NUMBERS[draft.strategy].map((name) => (
          <Amount key={name} name={name} draft={draft} wrong={wrong} set={set} />
        ))}
      </div>
      {draft.strategy === "sequence" ? (
        <TextInput
          label={t.sequence}
          description={t.sequenceAbout}
          value={draft.sequence}
          error={says("sequence")}
          onChange={(event) => set({ sequence: event.currentTarget.value })}
        />
      ) : null}
      <Delays draft={draft} />
      <div className={classes.pair}>
        <Select
          label={t.unknown}
          data={Object.entries(t.unknowns).map(([value, label]) => ({ value, label }))}
          value={draft.unknownErrors}
          allowDeselect={false}
          onChange={(value) => set({ unknownErrors: value === "fail" ? "fail" : "retry" })}
        />
        <Select
          label={t.child}
          data={Object.entries(t.children).map(([value, label]) => ({ value, label }))}
          value={draft.onChildFailure}
          allowDeselect={false}
          onChange={(value) => set({ onChildFailure: value === "cancel" ? "cancel" : "continue" })}
        />
      </div>
      <Switch
        label={t.manual}
        description={t.manualAbout}
        checked={draft.needManual}
        onChange={(event) => set({ needManual: event.currentTarget.checked })}
      />
    </fieldset>
  );
}

const SHOWN = 10;

function Delays({ draft }: { draft: Draft }) {
  const t = useTexts().types.form;
  const all = delays(draft).filter(Number.isFinite);
  if (draft.strategy === "none") return <p className={classes.delays}>{t.noRetry}</p>;
  if (all.length === 0) return null;
  const more = Number(draft.retries) > SHOWN ? ` → ${t.and}` : "";
  return (
    <p className={classes.delays} aria-live="polite">
      <span>{t.delays}</span>{" "}
      {all
        .slice(0, SHOWN)
        .map((delay) => duration(delay).replace(".0 ", " "))
        .join(" → ")}
      {more}
    </p>
  );
}
