import { Problem } from "@/services/problem";
import type { Texts } from "@/texts";
import { toast } from "./toasting";

interface Told {
  title: string;
  detail: string;
  requestId?: string | undefined;
}

/** An error in words for people. */
export function told(error: unknown, t: Texts): Told {
  if (!(error instanceof Problem)) return { title: t.common.problem, detail: String(error) };
  if (error.status === 0) return { title: t.common.noAnswer, detail: t.common.noAnswerAbout };
  if (error.status === 403) return { title: t.common.forbidden, detail: error.detail, requestId: error.requestId };
  return { title: error.title || t.common.problem, detail: error.detail, requestId: error.requestId };
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
