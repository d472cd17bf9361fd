import { Page } from "@/parts/Page";
import { useTexts } from "@/texts";

export function OverviewPage() {
  const t = useTexts().overview;
  return <Page title={t.title}>…</Page>;
}
