import type { Params } from "./codes";
import type { SchemaProblem } from "./schema";

/** What the server said instead of an answer (RFC 9457), or that it said nothing (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly requestId: string | undefined = undefined,
    /** What `detail` says, for programs. */
    readonly code: string = "",
    readonly params: Params = {},
    /** What kind of problem it is: many codes are of one. */
    readonly kind: string = "",
  ) {
    super(detail || title);
    this.name = "Problem";
  }

  static of(status: number, said: unknown): Problem {
    const told = (typeof said === "object" && said !== null ? said : {}) as Partial<SchemaProblem>;
    const kind = told.type?.split(":").at(-1);
    return new Problem(status, told.title ?? "", told.detail ?? "", told.request_id, told.code, told.params, kind);
  }
}

/** The server said no: what was asked for was not done. */
export function isRefused(error: unknown): boolean {
  return error instanceof Problem && error.status >= 400 && error.status < 500;
}

export function isGone(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}
