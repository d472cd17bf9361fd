import { Alert, List, Text } from "@mantine/core";
import { written } from "@/parts/Json";
import { refusalText } from "@/parts/told";
import { groupsOf } from "@/services/acts";
import type { Outcome } from "@/services/desk";
import { useTexts } from "@/texts";
import classes from "./EditReplay.module.css";

export function possible(outcomes: Outcome[]): number[] {
  return outcomes.filter((each) => !each.problem).map((each) => each.id);
}

/** What was refused, or would be: how many for which reason. */
export function Refused({ outcomes }: { outcomes: Outcome[] }) {
  const texts = useTexts();
  const t = texts.desk;
  const refused = outcomes.filter((each) => each.problem);
  if (refused.length === 0) return null;
  return (
    <Alert color="yellow" mt="xs" title={t.refused(refused.length)}>
      <List size="sm">
        {groupsOf(refused, (each) => refusalText(each, texts) ?? each.problem ?? "").map(([reason, count]) => (
          <List.Item key={reason}>
            {count} × {reason}
          </List.Item>
        ))}
      </List>
    </Alert>
  );
}

const SHOWN = 5;

/** What an edit would change of each, old and new. */
export function Changes({ outcomes }: { outcomes: Outcome[] }) {
  const t = useTexts().desk.edit;
  const good = outcomes.filter((each) => !each.problem);
  const changed = good.filter((each) => Object.keys(each.changes ?? {}).length > 0);
  if (good.length > 0 && changed.length === 0) return <Text mt="xs">{t.unchanged}</Text>;
  const said = (value: unknown) => (value === undefined ? t.absent : written(value));
  return (
    <>
      <ul className={classes.changes} aria-label={t.changes}>
        {changed.slice(0, SHOWN).map((each) => (
          <li key={each.id}>
            <strong>{t.ofTask(each.id)}</strong>
            <dl>
              {Object.entries(each.changes ?? {}).map(([name, change]) => (
                <div key={name} style={{ display: "contents" }}>
                  <dt>{name}</dt>
                  <dd>
                    <del>{said(change.old)}</del> → <ins>{said(change.new)}</ins>
                  </dd>
                </div>
              ))}
            </dl>
          </li>
        ))}
      </ul>
      {changed.length > SHOWN ? (
        <Text c="dimmed" mt="xs">
          {t.andMore(changed.length - SHOWN)}
        </Text>
      ) : null}
    </>
  );
}
