import createClient from "openapi-fetch";
import { parse } from "./json";
import { Problem } from "./problem";
import { heard } from "./reach";
import type { paths } from "./schema";

/** A page of another site cannot send it; the server asks for it with everything that changes something. */
export const OURS = { "X-Headgate-Console": "1" } as const;

/** The server. Only files in `services/` call it. */
export const api = createClient<paths>({
  baseUrl: globalThis.location?.origin ?? "",
  headers: OURS,
  credentials: "same-origin",
  fetch: async (request) => {
    const response = await fetch(request);
    response.json = async () => parse(await response.text());
    return response;
  },
  querySerializer: { array: { style: "form", explode: true } },
});

/** What is answered in the place of a server that is gone, or by one whose store is. */
const AWAY: ReadonlySet<number> = new Set([502, 503, 504]);

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** What the server answered; a `Problem` is thrown. */
export async function answered<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    heard(false);
    throw new Problem(0, "", "");
  }
  const problem = Problem.of(answer.response.status, answer.error);
  heard(!AWAY.has(problem.status) || problem.kind === "busy");
  if (answer.response.ok) return answer.data as T;
  if (problem.status === 401 && changing === 0) for (const tell of listeners) tell();
  throw problem;
}

const listeners = new Set<() => void>();
let changing = 0;

/** Do something in whose course the server stops knowing us and then knows us again. */
export async function whileChanging<T>(doing: () => Promise<T>): Promise<T> {
  changing += 1;
  try {
    return await doing();
  } finally {
    changing -= 1;
  }
}

/** Call `tell` whenever the server no longer knows us. */
export function onSignedOut(tell: () => void): () => void {
  listeners.add(tell);
  return () => listeners.delete(tell);
}
