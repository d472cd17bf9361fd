import { Button, Text } from "@mantine/core";
import { MOST_AT_ONCE } from "@/services/bulk";
import { isRefused } from "@/services/problem";
import { useSpoken } from "@/texts";
import classes from "./BulkBar.module.css";
import { amount } from "./formats";
import { ProblemNote } from "./ProblemNote";
import type { Bulk } from "./useBulk";

interface Props<T> {
  bulk: Bulk<T>;
  /** The result of an action on many tasks, in words. */
  result: (count: number) => string;
}

/** How far an act on many tasks is, how to stop it, and what came of it. */
export function BulkBar<T extends { problem?: string | null }>({ bulk, result }: Props<T>) {
  const { t, language } = useSpoken();
  const { done, of, running, over, stopping, error } = bulk;
  const good = done.filter((each) => !each.problem).length;
  const left = of - done.length;
  const unknown = error && !isRefused(error) ? Math.min(left, MOST_AT_ONCE) : 0;
  if (!running && !over) return null;
  return (
    <>
      {of > done.length || running ? (
        <div className={classes.bar}>
          <div
            className={classes.track}
            role="progressbar"
            aria-label={t.acts.progress}
            aria-valuemin={0}
            aria-valuemax={of}
            aria-valuenow={done.length}
            aria-valuetext={`${done.length} / ${of}`}
          >
            <div style={{ width: `${(done.length / of) * 100}%` }} />
          </div>
          <span>
            {amount(done.length, language)} / {amount(of, language)}
          </span>
          {running ? (
            <Button variant="default" loading={stopping} onClick={bulk.stop}>
              {t.acts.stop}
            </Button>
          ) : null}
        </div>
      ) : null}
      {over ? <Text fw={600}>{result(good)}</Text> : null}
      {over && unknown > 0 ? <Text>{t.acts.unknown(unknown)}</Text> : null}
      {over && left > unknown ? <Text>{(error ? t.acts.notReached : t.acts.stopped)(left - unknown)}</Text> : null}
      {error ? <ProblemNote error={error} /> : null}
    </>
  );
}
