import { Alert, Text, Title } from "@mantine/core";
import { written } from "@/parts/Json";
import type { TaskType, TypeIn } from "@/services/types";
import { useTexts } from "@/texts";
import { changesOf, SECRET } from "./draft";
import classes from "./page.module.css";

/** What saving would change, before it is done. */
export function Review({ before, body }: { before: TaskType | null; body: TypeIn }) {
  const t = useTexts().types.form;
  const changes = changesOf(before, body);
  const said = (value: unknown) => (value === undefined ? t.nothingBefore : written(value));
  return (
    <>
      <Title order={3} mb="xs">
        {t.reviewTitle}
      </Title>
      <Alert color="gray" mb="md">
        {t.note}
      </Alert>
      {before === null ? <Text mb="sm">{t.reviewNew}</Text> : null}
      {changes.length === 0 ? <Text mb="md">{t.nothing}</Text> : null}
      <dl className={classes.changes}>
        {changes.map((change) => (
          <div key={change.path}>
            <dt>{change.path}</dt>
            <dd>
              {before === null ? null : <del>{change.path === SECRET ? "•••" : said(change.before)}</del>}
              {before === null ? null : " → "}
              <ins>{change.path === SECRET ? t.secretNew : said(change.after)}</ins>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}
