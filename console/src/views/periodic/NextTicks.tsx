import { Text } from "@mantine/core";
import { Ago } from "@/parts/Ago";
import { useNow } from "@/parts/useNow";
import { useSpoken } from "@/texts";
import { readCron } from "./cron";
import classes from "./page.module.css";
import { isZone, nextTicks, onTheClock } from "./ticks";

const SHOWN = 5;
const EVERY_MS = 10_000;

/** When an expression would fire, while it is being typed; what is wrong with it, if it is none. */
export function NextTicks({ expression, zone }: { expression: string; zone: string }) {
  const { t, language } = useSpoken();
  const words = t.periodic.form;
  const now = Math.floor(useNow() / EVERY_MS) * EVERY_MS;
  if (!isZone(zone)) return <Text className={classes.wrong}>{words.badZone}</Text>;
  const cron = readCron(expression);
  if ("problem" in cron) {
    if (!expression.trim()) return <Text c="dimmed">{words.legend}</Text>;
    const { problem } = cron;
    return (
      <Text className={classes.wrong}>
        {"field" in problem ? words.badField(problem.field) : words.badFields(problem.fields)}
      </Text>
    );
  }
  const ticks = nextTicks(cron, zone, now, SHOWN);
  if (ticks.length === 0) return <Text className={classes.wrong}>{words.ticksNone}</Text>;
  return (
    <ol className={classes.ticks} aria-label={words.ticks}>
      {ticks.map((tick) => (
        <li key={tick}>
          <span>{onTheClock(tick, zone, language)}</span>
          <Ago at={new Date(tick).toISOString()} />
        </li>
      ))}
    </ol>
  );
}
