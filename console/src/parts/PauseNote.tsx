import type { Pause } from "@/services/pauses";
import { useTexts } from "@/texts";
import { Ago } from "./Ago";
import classes from "./PauseNote.module.css";

/** An actor of whom no more is known. */
const UNNAMED = "person";

/** Who paused something, why, and until when. */
export function PauseNote({ pause }: { pause: Pause }) {
  const t = useTexts().pauses;
  return (
    <span className={classes.note} data-tone="held">
      {pause.actor === UNNAMED ? t.paused : t.pausedBy(pause.actor)} <Ago at={pause.at} />
      {pause.reason ? ` · ${pause.reason}` : null}
      {pause.until ? (
        <>
          {" · "}
          {t.ends} <Ago at={pause.until} />
        </>
      ) : null}
    </span>
  );
}
