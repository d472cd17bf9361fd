import { Tooltip } from "@mantine/core";
import type { LiveState } from "@/services/live";
import { useTexts } from "@/texts";
import classes from "./LiveDot.module.css";
import { useLiveState } from "./live";

const TONES: Record<LiveState, string> = { connecting: "calm", live: "good", lost: "alarm" };

/** Whether what is on the screen is how it is now. */
export function LiveDot() {
  const t = useTexts().app;
  const state = useLiveState();
  return (
    <Tooltip label={t.liveAbout[state]} multiline w={240}>
      <span className={classes.dot} data-tone={TONES[state]} role="status">
        {t.live[state]}
      </span>
    </Tooltip>
  );
}
