import { useQueryClient } from "@tanstack/react-query";
import type { ErrorComponentProps } from "@tanstack/react-router";
import { LinkText } from "@/parts/links";
import { Page } from "@/parts/Page";
import { ProblemNote } from "@/parts/ProblemNote";
import { useTexts } from "@/texts";

/** Instead of a page that could not be drawn. What is around it stays; trying again asks for everything afresh. */
export function Broken({ error, reset }: ErrorComponentProps) {
  const t = useTexts().app;
  const queries = useQueryClient();
  const again = () => {
    queries.removeQueries({ type: "inactive" });
    reset();
  };
  return (
    <Page title={t.broken}>
      <ProblemNote error={error} retry={again} />
      <LinkText to="/">{t.toTheOverview}</LinkText>
    </Page>
  );
}
