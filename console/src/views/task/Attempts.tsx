import { useQuery } from "@tanstack/react-query";
import { Fragment } from "react";
import { Ago } from "@/parts/Ago";
import { duration } from "@/parts/formats";
import { Plain } from "@/parts/Json";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { Rows } from "@/parts/Rows";
import { useNow } from "@/parts/useNow";
import { attemptsQuery } from "@/services/tasks";
import { useTexts } from "@/texts";
import classes from "./Attempts.module.css";

/** Each time it was executed, the latest first: by whom, how long, what came of it, and why. */
export function Attempts({ id }: { id: string }) {
  const texts = useTexts();
  const { attempts: t, timeline } = texts.task;
  const now = useNow();
  const attempts = (useQuery(attemptsQuery(id)).data ?? []).toReversed();
  if (attempts.length === 0) return null;
  return (
    <Panel title={t.title} flush>
      <Rows
        label={t.title}
        cardsBelow={400}
        heads={[
          { text: t.number, plain: true },
          { text: t.outcome, plain: true },
          { text: t.by },
          { text: t.started },
          { text: t.took, number: true },
        ]}
      >
        {attempts.map((attempt) => (
          <Fragment key={attempt.exec_id}>
            <tr>
              <th scope="row">{attempt.number}</th>
              <td data-long>
                {t.outcomes[attempt.outcome] ?? timeline.kinds[attempt.outcome] ?? attempt.outcome}
                {attempt.reason && attempt.reason !== "error" ? ` · ${texts.ends[attempt.reason]}` : ""}
                {attempt.delay ? ` · ${t.again(duration(attempt.delay))}` : ""}
              </td>
              <td data-long>
                <Name of={attempt.executor} />
              </td>
              <td>
                <Ago at={attempt.started_at} />
              </td>
              <td data-number>
                {duration(
                  ((attempt.ended_at ? Date.parse(attempt.ended_at) : now) - Date.parse(attempt.started_at)) / 1000,
                )}
              </td>
            </tr>
            {attempt.error ? (
              <tr className={classes.error}>
                <td colSpan={5} data-long>
                  <details>
                    <summary>{t.error}</summary>
                    <Plain text={attempt.error} />
                  </details>
                </td>
              </tr>
            ) : null}
          </Fragment>
        ))}
      </Rows>
    </Panel>
  );
}
