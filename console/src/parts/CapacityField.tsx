import { TextInput } from "@mantine/core";
import { useEffect, useState } from "react";
import { useTexts } from "@/texts";
import classes from "./CapacityField.module.css";

interface Props {
  label: string;
  about: string;
  /** null: no limit. */
  value: number | null;
  onChange: (value: number | null) => void;
}

const MOST = 1_000_000_000;

/** How many at once: typed and sent with Enter, or when the field is left. Empty means no limit. */
export function CapacityField({ label, about, value, onChange }: Props) {
  const t = useTexts().common;
  const [draft, setDraft] = useState(written(value));
  useEffect(() => setDraft(written(value)), [value]);
  const wrong = !/^\d*$/.test(draft) || Number(draft) > MOST;
  const send = () => {
    const capacity = draft === "" ? null : Number(draft);
    if (!wrong && capacity !== value) onChange(capacity);
  };
  return (
    <TextInput
      className={classes.field}
      aria-label={label}
      title={about}
      value={draft}
      placeholder={t.unlimited}
      inputMode="numeric"
      error={wrong}
      onChange={(event) => setDraft(event.currentTarget.value.trim())}
      onBlur={send}
      onKeyDown={(event) => {
        const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
        if (event.key === "Enter") send();
        else if (event.key === "Escape") setDraft(written(value));
        else if (step) setDraft(String(Math.max(0, Number(draft) + step)));
      }}
    />
  );
}

function written(capacity: number | null): string {
  return capacity === null ? "" : String(capacity);
}
