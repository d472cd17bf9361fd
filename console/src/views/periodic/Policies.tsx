import { Radio } from "@mantine/core";
import type { LogPolicy, Missed, Overlap } from "@/services/periodic";
import { useTexts } from "@/texts";
import type { Draft } from "./draft";
import classes from "./page.module.css";

interface Props {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
}

/** What becomes of ticks in difficult moments, each choice with its reason. */
export function Policies({ draft, set }: Props) {
  const t = useTexts().periodic;
  return (
    <>
      <Choice<Missed>
        title={t.form.missed}
        about={t.form.missedAbout}
        words={t.missed}
        reasons={t.missedAbout}
        value={draft.missed}
        onChange={(missed) => set({ missed })}
      />
      <Choice<Overlap>
        title={t.form.overlap}
        about={t.form.overlapAbout}
        words={t.overlap}
        reasons={t.overlapAbout}
        value={draft.overlap}
        onChange={(overlap) => set({ overlap })}
      />
      <Choice<LogPolicy>
        title={t.form.log}
        about={t.form.logAbout}
        words={t.log}
        reasons={t.logAbout}
        value={draft.log}
        onChange={(log) => set({ log })}
      />
    </>
  );
}

interface ChoiceProps<T extends string> {
  title: string;
  about: string;
  words: Record<T, string>;
  reasons: Record<T, string>;
  value: T;
  onChange: (value: T) => void;
}

function Choice<T extends string>({ title, about, words, reasons, value, onChange }: ChoiceProps<T>) {
  return (
    <Radio.Group
      size="xs"
      className={classes.group ?? ""}
      label={title}
      description={about}
      value={value}
      onChange={(next) => onChange(next as T)}
    >
      {(Object.keys(words) as T[]).map((each) => (
        <Radio key={each} size="xs" value={each} label={words[each]} description={reasons[each]} mt={6} />
      ))}
    </Radio.Group>
  );
}
