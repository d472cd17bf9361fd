import { Page } from "@/parts/Page";
import { useTexts } from "@/texts";

export function TasksPage() {
  const t = useTexts().tasks;
  return <Page title={t.title}>…</Page>;
}
