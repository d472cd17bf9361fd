/** "headgate.core.retry.Fatal: …", as a traceback writes it; what matters to people begins behind the modules. */
const MODULES = /^(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_]\w*(?::|$))/;
const TRACEBACK = /^Traceback \(most recent call last\)/;

/** What an error is, in one line: its first, or the last of one that is a traceback and nothing else. */
export function headOf(error: string | null): string {
  const lines = (error ?? "").trim().split("\n");
  const line = TRACEBACK.test(lines[0] ?? "") ? lines.at(-1) : lines[0];
  return (line ?? "").trim().replace(MODULES, "");
}
