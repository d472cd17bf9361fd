import { Text } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Ago } from "@/parts/Ago";
import { told } from "@/parts/problems";
import { previewQuery } from "@/services/periodic";
import { useSpoken } from "@/texts";
import { onTheClock } from "./clock";
import classes from "./page.module.css";

const SHOWN = 5;
const PAUSE_MS = 200; // between keystrokes

/** When an expression would fire, while it is being typed; what the server has against it, if it is none. */
export function NextTicks({ expression, zone }: { expression: string; zone: string }) {
  const { t, language } = useSpoken();
  const words = t.periodic.form;
  const said = expression.trim();
  const [settled] = useDebouncedValue(said, PAUSE_MS);
  const asked = { ...previewQuery(settled, zone, SHOWN), enabled: settled !== "" };
  const ticks = useQuery({ ...asked, placeholderData: keepPreviousData });
  if (said === "") return <Text c="dimmed">{words.legend}</Text>;
  if (ticks.error) return <Text className={classes.wrong}>{words.badCron(told(ticks.error, t).detail)}</Text>;
  const stale = ticks.isPlaceholderData || settled !== said;
  return (
    <ol className={classes.ticks} aria-label={words.ticks} aria-busy={stale}>
      {ticks.data?.map((tick) => (
        <li key={tick.at}>
          <span>{onTheClock(tick.local, language)}</span>
          <Ago at={tick.at} />
        </li>
      ))}
    </ol>
  );
}
