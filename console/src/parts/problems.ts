import { Problem } from "@/services/problem";
import type { Texts } from "@/texts";
import { toast } from "./toasting";
import { refusalText } from "./told";

interface Told {
  title: string;
  detail: string;
  requestId?: string | undefined;
}

/** An error in words for people. */
export function told(error: unknown, t: Texts): Told {
  if (!(error instanceof Problem)) return { title: t.common.problem, detail: String(error) };
  if (error.status === 0) return { title: t.common.noAnswer, detail: t.common.noAnswerAbout };
  const title = t.problems[error.kind] ?? (error.title || t.common.problem);
  return { title, detail: refusalText(error, t) ?? error.detail, requestId: error.requestId };
}

/** Say in a corner of the screen that something did not work. */
export function complain(error: unknown, t: Texts): void {
  const { title, detail } = told(error, t);
  toast({ tone: "alarm", title, text: detail });
}

/** Say in a corner of the screen that something was done; `undo` takes it back. */
export function confirmDone(message: string, undo?: () => void): void {
  toast({ tone: "good", text: message, undo });
}
