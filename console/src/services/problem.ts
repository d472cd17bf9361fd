import type { SchemaProblem } from "./schema";

/** What the server said instead of an answer (RFC 9457), or that it said nothing (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly requestId: string | undefined = undefined,
  ) {
    super(detail || title);
    this.name = "Problem";
  }

  static of(status: number, said: unknown): Problem {
    const told = (typeof said === "object" && said !== null ? said : {}) as Partial<SchemaProblem>;
    return new Problem(status, told.title ?? "", told.detail ?? "", told.request_id);
  }
}

export function isGone(error: unknown): boolean {
  return error instanceof Problem && error.status === 404;
}
