import { IconPlugConnectedX } from "@tabler/icons-react";
import { useEffect, useSyncExternalStore } from "react";
import { Ago } from "@/parts/Ago";
import { silence, watchSilence } from "@/services/reach";
import { useTexts } from "@/texts";
import classes from "./Silence.module.css";

/** While the server does not answer: that it does not, and how old what is on the screen is. */
export function Silence() {
  const t = useTexts().common;
  const since = useSyncExternalStore(watchSilence, silence);
  useEffect(() => {
    document.documentElement.toggleAttribute("data-silent", since !== null);
  }, [since]);
  if (since === null) return null;
  return (
    <div className={classes.silence} role="alert">
      <IconPlugConnectedX size={16} />
      <strong>{t.noAnswer}</strong>
      <span>
        {t.asOf} <Ago at={new Date(since).toISOString()} />
      </span>
    </div>
  );
}
