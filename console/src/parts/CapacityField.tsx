import { ActionIcon, TextInput } from "@mantine/core";
import { IconCheck, IconX } from "@tabler/icons-react";
import { useState } from "react";
import { useTexts } from "@/texts";
import classes from "./CapacityField.module.css";

interface Props {
  label: string;
  about: string;
  /** null: no limit. */
  value: number | null;
  /** What is typed stays until this has been done. */
  onSave: (value: number | null) => Promise<unknown>;
}

const MOST = 1_000_000_000;

/**
 * How many at once; empty means no limit. It is sent with Enter or the button, never by leaving the field, and what
 * somebody types stays when another tab changes the value.
 */
export function CapacityField({ label, about, value, onSave }: Props) {
  const t = useTexts().common;
  const [edit, setEdit] = useState<{ text: string; from: number | null } | null>(null);
  const [saving, setSaving] = useState(false);
  const text = edit?.text ?? written(value);
  const changed = edit !== null && edit.text !== written(value);
  const wrong = !/^\d*$/.test(text) || Number(text) > MOST;
  const type = (next: string) => setEdit({ text: next, from: edit ? edit.from : value });
  const save = () => {
    if (!changed || wrong || saving) return;
    setSaving(true);
    onSave(text === "" ? null : Number(text))
      .then(() => setEdit(null))
      .catch(() => {}) // `save` reports its own errors
      .finally(() => setSaving(false));
  };
  return (
    <form
      className={classes.form}
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      {changed && edit.from !== value ? <small>{t.nowIs(written(value) || t.unlimited)}</small> : null}
      <TextInput
        className={classes.field}
        aria-label={label}
        title={about}
        value={text}
        placeholder={t.unlimited}
        inputMode="numeric"
        error={wrong}
        onChange={(event) => type(event.currentTarget.value.trim())}
        onKeyDown={(event) => {
          const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
          if (event.key === "Escape") setEdit(null);
          else if (step) type(String(Math.max(0, Number(text) + step)));
        }}
      />
      {changed ? (
        <>
          <ActionIcon
            type="submit"
            variant="filled"
            color="brand"
            aria-label={t.saveOf(label)}
            disabled={wrong}
            loading={saving}
          >
            <IconCheck size={14} />
          </ActionIcon>
          <ActionIcon aria-label={t.discardOf(label)} onClick={() => setEdit(null)}>
            <IconX size={14} />
          </ActionIcon>
        </>
      ) : null}
    </form>
  );
}

function written(capacity: number | null): string {
  return capacity === null ? "" : String(capacity);
}
