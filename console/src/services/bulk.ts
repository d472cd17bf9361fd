/** How many tasks one call may be for. */
export const MOST_AT_ONCE = 200;

/** What came of each id, call by call; it ends early when `signal` says so, and tells how far it is. */
export async function inCalls<T>(
  ids: number[],
  call: (ids: number[]) => Promise<T[]>,
  tell: (done: T[]) => void = () => {},
  signal?: AbortSignal,
): Promise<T[]> {
  let done: T[] = [];
  for (let at = 0; at < ids.length && !signal?.aborted; at += MOST_AT_ONCE) {
    done = [...done, ...(await call(ids.slice(at, at + MOST_AT_ONCE)))];
    tell(done);
  }
  return done;
}
