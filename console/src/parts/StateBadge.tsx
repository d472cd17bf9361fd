import { FINAL, stateOf, TONES } from "@/services/states";
import { useTexts } from "@/texts";
import classes from "./StateBadge.module.css";

interface Props {
  status: string;
  /** What was asked of it. A task keeps this for good, so it is shown only until the task has ended. */
  asked?: "cancel" | "pause" | undefined;
}

/** A task's state: one word and one tone, the same on every page. */
export function StateBadge({ status, asked }: Props) {
  const t = useTexts().states;
  const state = stateOf(status);
  const ended = FINAL.has(state) || state === "dead";
  return (
    <span
      className={classes.badge}
      data-tone={TONES[state]}
      data-busy={state === "running" || undefined}
      title={t.about[state]}
    >
      {t.words[state]}
      {asked && !ended ? <small>{asked === "cancel" ? t.cancelling : t.pausing}</small> : null}
    </span>
  );
}
