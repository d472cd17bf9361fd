import type { Params } from "@/services/codes";
import { exactly as inItsDigits } from "@/services/exact";
import type { Language, Texts } from "@/texts";
import { exactly } from "./formats";

/** A text of the server's with what it says as a code: in the language that is spoken, or, where we do not know the code, as it is. */
interface Coded {
  code?: string | undefined;
  params?: Params | undefined;
}

/** Why a gate is open or shut, or what decides a forecast. */
export function reasonText(said: Coded & { reason: string }, t: Texts): string {
  const sentence = t.reasons[said.code ?? ""];
  const params = said.params ?? {};
  if (!sentence) return said.reason;
  return "stuck" in params ? `${sentence(params)}; ${t.stuck(params)}` : sentence(params);
}

/** Why something was refused; null if only the server's English says it. */
export function refusalText({ code, params }: Coded, t: Texts): string | null {
  return t.refusals[code ?? ""]?.(params ?? {}).trim() ?? null;
}

interface Happened extends Coded {
  kind: string;
  task_id: number | null;
  detail: string | null;
}

const NOT_SAID: ReadonlySet<string> = new Set(["address"]);

/** What an event says besides its kind and states. */
export function eventText(event: Happened, t: Texts, language: Language): string {
  const params = event.params ?? {};
  const texts = Object.entries(params)
    .filter(([name]) => !NOT_SAID.has(name))
    .map(([name, value]) => part(event, name, value, t, language));
  return texts.filter(Boolean).join(" · ");
}

function part(event: Happened, name: string, value: unknown, t: Texts, language: Language): string {
  const words = t.eventDetails;
  switch (name) {
    case "changes":
    case "edit":
      return changes(value, t);
    case "reason":
      if (value === "error" && event.params?.error) return ""; // which says it better
      return (event.task_id === null ? undefined : t.ends[String(value)]) ?? plain(value);
    case "remark":
    case "error":
    case "text":
      return plain(value);
    case "delay":
      return words.again(Number(value));
    case "until":
      return words.until(exactly(new Date(String(value)), language));
    case "children":
      return words.children(children(value, t));
    case "replaced":
      return words.replaces(plain(value));
    case "progress":
      return progress(value, t);
    case "refusal":
      return value === "stale-execution" ? words.staleExecution : plain(value);
    case "lane":
      if (value === "*") return words.everything;
  }
  return `${words.names[name] ?? name} ${plain(value)}`;
}

function changes(value: unknown, t: Texts): string {
  const words = t.eventDetails;
  const side = (said: unknown) => (said === undefined || said === null ? words.unset : plain(said));
  return entries(value)
    .map(([name, sides]) => {
      const { old, new: now } = (sides ?? {}) as { old?: unknown; new?: unknown };
      return `${words.names[name] ?? name} ${side(old)} → ${side(now)}`;
    })
    .join(", ");
}

function children(value: unknown, t: Texts): string {
  const words = t.states.words as Record<string, string>;
  return entries(value)
    .map(([state, count]) => `${count} ${words[state] ?? state}`)
    .join(", ");
}

function progress(value: unknown, t: Texts): string {
  const { done, total, note } = (value ?? {}) as { done?: unknown; total?: unknown; note?: unknown };
  if (done === undefined || total === undefined) return plain(value);
  return t.eventDetails.progress(done, total) + (note ? `: ${note}` : "");
}

function entries(value: unknown): [string, unknown][] {
  return typeof value === "object" && value !== null ? Object.entries(value) : [];
}

function plain(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(inItsDigits(value));
}
