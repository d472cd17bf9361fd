import { Tooltip } from "@mantine/core";
import { useSpoken } from "@/texts";
import { clock, exactly, relatively } from "./formats";
import { useNow } from "./useNow";

interface Props {
  at: string | null | undefined;
  /** Instead of nothing. */
  none?: string;
}

/** How long ago, or how soon; the exact time is shown on hover. */
export function Ago({ at, none = "–" }: Props) {
  const { language } = useSpoken();
  const now = useNow();
  if (!at) return <span>{none}</span>;
  const moment = new Date(at);
  return (
    <Tooltip label={exactly(moment, language)}>
      <time dateTime={at}>{relatively(moment.getTime() - now, language)}</time>
    </Tooltip>
  );
}

/** The time of day; the whole time is shown on hover. For lists of what happened one after the other. */
export function At({ at }: { at: string }) {
  const { language } = useSpoken();
  const moment = new Date(at);
  return (
    <Tooltip label={exactly(moment, language)}>
      <time dateTime={at}>{clock(moment, language)}</time>
    </Tooltip>
  );
}
