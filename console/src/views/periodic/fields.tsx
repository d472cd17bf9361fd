import { Autocomplete, Button, SegmentedControl, Select, Text, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useSession } from "@/app/session";
import { typesQuery } from "@/services/types";
import { useTexts } from "@/texts";
import { zones } from "./clock";
import { type Draft, METHODS, type Method, TASK_FIELDS, type Wrong } from "./draft";
import { NextTicks } from "./NextTicks";
import classes from "./page.module.css";

interface Props {
  draft: Draft;
  wrong: Wrong;
  set: (change: Partial<Draft>) => void;
}

const PRESETS = {
  five: "*/5 * * * *",
  hour: "0 * * * *",
  day: "30 2 * * *",
  workday: "0 9 * * MON-FRI",
  week: "0 6 * * MON",
  month: "0 0 1 * *",
  last: "0 18 LW * *",
} as const;

/** The cron helper: an expression, a zone, and when that would fire. */
export function When({ draft, wrong, set }: Props) {
  const t = useTexts().periodic.form;
  const known = useMemo(() => zones(draft.zone), [draft.zone]);
  return (
    <fieldset className={classes.group}>
      <legend>{t.when}</legend>
      <div className={classes.pair}>
        <TextInput
          className={classes.mono ?? ""}
          label={t.cron}
          description={t.legend}
          value={draft.cron}
          maxLength={255}
          spellCheck={false}
          autoComplete="off"
          error={wrong.cron ? t.needed : null}
          onChange={(event) => set({ cron: event.currentTarget.value })}
          data-autofocus
        />
        <Select
          label={t.zone}
          description={t.ticksAbout}
          data={known}
          value={draft.zone}
          onChange={(zone) => set({ zone: zone ?? "UTC" })}
          searchable
          allowDeselect={false}
          limit={50}
        />
      </div>
      <div className={classes.presets} role="group" aria-label={t.presets}>
        {(Object.keys(PRESETS) as (keyof typeof PRESETS)[]).map((name) => (
          <Button
            key={name}
            size="compact-xs"
            variant={draft.cron.trim() === PRESETS[name] ? "light" : "default"}
            onClick={() => set({ cron: PRESETS[name] })}
          >
            {t.preset[name]}
          </Button>
        ))}
      </div>
      <div className={classes.helper} aria-live="polite">
        <Text fw={600} size="xs">
          {t.ticks}
        </Text>
        <NextTicks expression={draft.cron} zone={draft.zone} />
      </div>
    </fieldset>
  );
}

/** What a tick does: a task of a type, or a call. */
export function What({ draft, wrong, set }: Props) {
  const t = useTexts().periodic.form;
  const types = useQuery(typesQuery).data ?? [];
  return (
    <fieldset className={classes.group}>
      <legend>{t.what}</legend>
      <SegmentedControl
        aria-label={t.does}
        value={draft.calls ? "call" : "task"}
        onChange={(value) => set({ calls: value === "call" })}
        data={[
          { value: "task", label: t.makesTask },
          { value: "call", label: t.callsUrl },
        ]}
      />
      {draft.calls ? (
        <div className={classes.pair}>
          <TextInput
            label={t.typeHttp}
            description={t.typeHttpAbout}
            value={draft.type}
            maxLength={255}
            error={wrong.type ? t.needed : null}
            onChange={(event) => set({ type: event.currentTarget.value })}
          />
          <TextInput
            label={t.url}
            description="https://…"
            value={draft.url}
            maxLength={2000}
            error={wrong.url === "needed" ? t.needed : wrong.url === "bad" ? t.badUrl : null}
            onChange={(event) => set({ url: event.currentTarget.value })}
          />
          <Select
            label={t.method}
            data={METHODS}
            value={draft.method}
            allowDeselect={false}
            onChange={(method) => set({ method: (method ?? "POST") as Method })}
          />
        </div>
      ) : (
        <Autocomplete
          size="xs"
          label={t.type}
          data={types.map((type) => type.code)}
          value={draft.type}
          maxLength={255}
          error={wrong.type ? t.needed : null}
          onChange={(type) => set({ type })}
        />
      )}
      <Textarea
        className={classes.mono ?? ""}
        label={t.ext}
        value={draft.ext}
        autosize
        minRows={3}
        maxRows={14}
        spellCheck={false}
        error={wrong.ext === undefined ? null : t.extBad(wrong.ext)}
        onChange={(event) => set({ ext: event.currentTarget.value })}
      />
    </fieldset>
  );
}

/** What else its tasks are made with. */
export function Further({ draft, wrong, set, isNew }: Props & { isNew: boolean }) {
  const t = useTexts().periodic.form;
  const everybody = useSession().tenant_id === null;
  const bad = (name: string) => (wrong.numbers?.has(name) ? t.number : null);
  return (
    <fieldset className={classes.group}>
      <Text c="dimmed">{t.furtherAbout}</Text>
      <div className={classes.pair}>
        {TASK_FIELDS.map((name) => (
          <TextInput
            key={name}
            label={t.task[name]}
            value={draft.task[name]}
            maxLength={255}
            error={bad(name)}
            onChange={(event) => set({ task: { ...draft.task, [name]: event.currentTarget.value } })}
          />
        ))}
        <TextInput
          label={t.category}
          value={draft.category}
          maxLength={255}
          onChange={(event) => set({ category: event.currentTarget.value })}
        />
        <TextInput
          label={t.creator}
          value={draft.creator}
          error={bad("creator")}
          onChange={(event) => set({ creator: event.currentTarget.value })}
        />
        {isNew && everybody ? (
          <TextInput
            label={t.tenant}
            value={draft.tenant}
            error={bad("tenant")}
            onChange={(event) => set({ tenant: event.currentTarget.value })}
          />
        ) : null}
      </div>
    </fieldset>
  );
}
