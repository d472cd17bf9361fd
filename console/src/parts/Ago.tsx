import { useMemo } from "react";
import { useSpoken } from "@/texts";
import { clock, exactly, relatively } from "./formats";
import { useNow } from "./useNow";

interface Props {
  at: string | null | undefined;
  /** Instead of nothing. */
  none?: string;
}

/** How long ago, or how soon; the exact time is shown on hover, by the browser itself: there is one in every row. */
export function Ago({ at, none = "–" }: Props) {
  const { language } = useSpoken();
  const now = useNow();
  const exact = useMemo(() => (at ? exactly(new Date(at), language) : ""), [at, language]);
  if (!at) return <span>{none}</span>;
  return (
    <time dateTime={at} title={exact}>
      {relatively(Date.parse(at) - now, language)}
    </time>
  );
}

/** The time of day; the whole time is shown on hover. For lists of what happened one after the other. */
export function At({ at }: { at: string }) {
  const { language } = useSpoken();
  const moment = new Date(at);
  return (
    <time dateTime={at} title={exactly(moment, language)}>
      {clock(moment, language)}
    </time>
  );
}
