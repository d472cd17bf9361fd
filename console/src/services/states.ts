import type { SchemaState } from "./schema";

export type State = SchemaState;
export type Tone = "calm" | "live" | "good" | "warn" | "alarm" | "held" | "past";

/** How loud a state is. A state that is missing here does not compile. */
export const TONES: Record<State, Tone> = {
  pending: "calm",
  blocked: "warn",
  queued: "calm",
  scheduling: "live",
  running: "live",
  waiting: "live",
  paused: "held",
  retrying: "warn",
  notifying: "live",
  succeeded: "good",
  partial: "warn",
  failed: "alarm",
  dead: "alarm",
  resolved: "good",
  cancelled: "past",
};

export const STATES = Object.keys(TONES) as State[];
export const FINAL: ReadonlySet<State> = new Set<State>(["succeeded", "partial", "failed", "resolved", "cancelled"]);

export function isState(said: string): said is State {
  return Object.hasOwn(TONES, said);
}

/** A state by its word; one that we do not know (a newer server's) is shown as plain as it can be. */
export function stateOf(said: string): State {
  return isState(said) ? said : "pending";
}
