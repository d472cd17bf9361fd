import { FINAL, stateOf } from "@/services/states";
import classes from "./Progress.module.css";

interface Props {
  progress: unknown;
  /** Of the task: what has succeeded is not on its way any more, and what ended otherwise does not move. */
  status: string;
}

/** How far a task is, as it says itself: `{done, total, note}`, or whatever it says. */
export function Progress({ progress, status }: Props) {
  const said = read(progress);
  if (!said || status === "succeeded") return null;
  const part = said.total > 0 ? Math.min(1, said.done / said.total) : 0;
  return (
    <span className={classes.progress} title={said.note} data-tone={FINAL.has(stateOf(status)) ? "past" : "live"}>
      <span className={classes.track}>
        <span style={{ width: `${part * 100}%` }} />
      </span>
      {said.done}/{said.total}
    </span>
  );
}

interface Said {
  done: number;
  total: number;
  note: string;
}

export function read(progress: unknown): Said | null {
  if (typeof progress !== "object" || progress === null) return null;
  const { done, total, note } = progress as Record<string, unknown>;
  if (typeof done !== "number" || typeof total !== "number") return null;
  return { done, total, note: typeof note === "string" ? note : "" };
}
