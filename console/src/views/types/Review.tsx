import { Alert, Text, Title } from "@mantine/core";
import { written } from "@/parts/Json";
import { LinkText } from "@/parts/links";
import { StateBadge } from "@/parts/StateBadge";
import type { Foreseen } from "@/services/types";
import { useTexts } from "@/texts";
import classes from "./page.module.css";

/** What saving would change, before it is done, and what that would mean for the tasks there are. */
export function Review({ foreseen, isNew }: { foreseen: Foreseen; isNew: boolean }) {
  const t = useTexts().types.form;
  const changes = Object.entries(foreseen.changes);
  return (
    <>
      <Title order={3} mb="xs">
        {t.reviewTitle}
      </Title>
      <Alert color="gray" mb="md">
        {t.note}
      </Alert>
      {isNew ? <Text mb="sm">{t.reviewNew}</Text> : null}
      {changes.length === 0 && !isNew ? <Text mb="md">{t.nothing}</Text> : null}
      <dl className={classes.changes}>
        {changes.map(([word, change]) => (
          <div key={word}>
            <dt>{word}</dt>
            <dd>
              {isNew ? null : <del>{said(word, change.old, "•••", t.nothingBefore)}</del>}
              {isNew ? null : " → "}
              <ins>{said(word, change.new, t.secretNew, t.nothingBefore)}</ins>
            </dd>
          </div>
        ))}
      </dl>
      <Meaning foreseen={foreseen} />
    </>
  );
}

function said(word: string, value: unknown, secret: string, nothing: string): string {
  if (value === undefined || value === null) return nothing;
  return word.endsWith(".sk") ? secret : written(value);
}

function Meaning({ foreseen }: { foreseen: Foreseen }) {
  const t = useTexts().types.form;
  const states = Object.entries(foreseen.states);
  return (
    <section aria-label={t.tasks}>
      <Title order={3} mb="xs">
        {t.tasks}
      </Title>
      {states.length === 0 ? <Text mb="md">{t.noTasks}</Text> : null}
      <div className={classes.counts}>
        {states.map(([state, count]) => (
          <span key={state}>
            {count} <StateBadge status={state} />
          </span>
        ))}
      </div>
      <ul className={classes.meaning}>
        {foreseen.given_up > 0 ? (
          <li data-loud>
            {t.givenUp(foreseen.given_up)} <Some ids={foreseen.given_up_ids} of={foreseen.given_up} />
          </li>
        ) : null}
        {foreseen.spared > 0 ? (
          <li>
            {t.spared(foreseen.spared)} <Some ids={foreseen.spared_ids} of={foreseen.spared} />
          </li>
        ) : null}
        {foreseen.retimed > 0 ? <li>{t.retimed(foreseen.retimed)}</li> : null}
        {foreseen.stay > 0 ? <li>{t.stay(foreseen.stay)}</li> : null}
        {foreseen.exact ? null : <li>{t.notAll}</li>}
      </ul>
    </section>
  );
}

/** In a tab of their own: what was filled in stays. */
function Some({ ids, of }: { ids: number[]; of: number }) {
  return (
    <span className={classes.ids}>
      {ids.map((id) => (
        <LinkText key={id} underline="always" to="/tasks/$taskId" params={{ taskId: String(id) }} target="_blank">
          #{id}
        </LinkText>
      ))}
      {of > ids.length ? "…" : null}
    </span>
  );
}
