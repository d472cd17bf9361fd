import { PasswordInput, Select, Switch, Text, TextInput } from "@mantine/core";
import type { TaskType } from "@/services/types";
import { useTexts } from "@/texts";
import type { Method } from "./draft";
import { type FieldsProps, useSays } from "./fields";
import classes from "./page.module.css";

/** Who is told how a task ended, and how that is signed. The secret goes in and never comes out. */
export function Receivers({ draft, wrong, set, before }: FieldsProps & { before: TaskType | null }) {
  const t = useTexts().types.form;
  const says = useSays(wrong);
  const kept = before?.config.callback.security?.type === "aksk";
  return (
    <fieldset className={classes.group}>
      <legend>{t.callbacks}</legend>
      <Text c="dimmed">{t.callbacksAbout}</Text>
      {(["success", "error"] as const).map((kind) => (
        <div key={kind} className={classes.target}>
          <TextInput
            label={t[kind]}
            placeholder="https://…"
            value={draft[kind].url}
            maxLength={2000}
            error={says(kind)}
            onChange={(event) => set({ [kind]: { ...draft[kind], url: event.currentTarget.value } })}
          />
          <Select
            label={t.method}
            data={["POST", "PUT"]}
            value={draft[kind].method}
            allowDeselect={false}
            onChange={(method) => set({ [kind]: { ...draft[kind], method: (method ?? "POST") as Method } })}
          />
        </div>
      ))}
      <Switch
        label={t.signed}
        checked={draft.signed}
        onChange={(event) => set({ signed: event.currentTarget.checked })}
      />
      {draft.signed ? (
        <div className={classes.pair}>
          <TextInput
            label={t.ak}
            value={draft.ak}
            maxLength={128}
            autoComplete="off"
            error={says("ak")}
            onChange={(event) => set({ ak: event.currentTarget.value })}
          />
          <PasswordInput
            size="xs"
            label={t.sk}
            description={kept ? t.skKept : t.skNew}
            value={draft.sk}
            maxLength={255}
            autoComplete="new-password"
            error={says("sk")}
            onChange={(event) => set({ sk: event.currentTarget.value })}
          />
        </div>
      ) : null}
    </fieldset>
  );
}
