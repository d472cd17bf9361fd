import type { Tone } from "@/services/states";
import { useTexts } from "@/texts";
import classes from "./Gauge.module.css";

interface Props {
  /** What it is the fullness of, for those who do not see it. */
  label: string;
  value: number;
  /** null: there is no limit. */
  most: number | null;
  note?: string | undefined;
  /** Nothing is added to it for now. */
  held?: boolean;
  /** What it means to be full: of a lane that others wait, of something to be completed that it is done. */
  full?: Tone;
}

/** How full something is, with the numbers beside it. */
export function Gauge({ label, value, most, note, held, full = "warn" }: Props) {
  const t = useTexts().common;
  const part = most === null || most === 0 ? 0 : Math.min(1, value / most);
  const tone: Tone = held ? "held" : part === 1 ? full : "good";
  return (
    <div className={classes.gauge} data-tone={tone}>
      <div
        className={classes.track}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={most ?? Math.max(value, 1)}
        aria-valuenow={value}
        aria-valuetext={most === null ? `${value}, ${t.unlimited}` : `${value} / ${most}`}
        data-unlimited={most === null || undefined}
      >
        <div style={{ width: `${part * 100}%` }} />
      </div>
      <span className={classes.numbers}>
        {value}
        <span> / {most ?? "∞"}</span>
      </span>
      {note ? <span className={classes.note}>{note}</span> : null}
    </div>
  );
}
