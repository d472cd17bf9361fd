import { Page } from "@/parts/Page";

export function TaskPage() {
  return <Page title="…">…</Page>;
}
