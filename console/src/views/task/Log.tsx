import { Checkbox } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import { clock } from "@/parts/formats";
import { Panel } from "@/parts/Panel";
import { FINAL, type State } from "@/services/states";
import { type LogLine, logLines } from "@/services/tasks";
import { useSpoken } from "@/texts";
import classes from "./Log.module.css";

const WAIT_SECONDS = 25;
const AGAIN_MS = 2_000;
const MOST = 5_000;
const TONES: Record<string, string> = { warning: "warn", error: "alarm", critical: "alarm", debug: "past" };

/** What a task writes, as it writes it. */
export function Log({ id, status }: { id: string; status: State }) {
  const { t, language } = useSpoken();
  const words = t.task.log;
  const lines = useLog(id, status);
  const [follow, setFollow] = useState(true);
  const frame = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: it follows the lines
  useEffect(() => {
    if (follow && frame.current) frame.current.scrollTop = frame.current.scrollHeight;
  }, [lines, follow]);
  return (
    <Panel
      title={words.title}
      actions={
        lines.length > 0 ? (
          <Checkbox
            label={words.follow}
            checked={follow}
            onChange={(event) => setFollow(event.currentTarget.checked)}
          />
        ) : null
      }
      flush
    >
      {lines.length === 0 ? (
        <p className={classes.empty}>
          {words.empty} {words.emptyAbout} <code>headgate.context().log("…")</code>
        </p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        <div className={classes.log} ref={frame} role="log" aria-label={words.title} tabIndex={0}>
          {lines.map((line, at) => (
            <div key={line.id} className={classes.line} data-tone={TONES[line.level]}>
              {line.attempt === lines[at - 1]?.attempt ? null : (
                <div className={classes.attempt}>{words.attempt(line.attempt)}</div>
              )}
              <time dateTime={line.at}>{clock(new Date(line.at), language)}</time>
              <span className={classes.level}>{line.level}</span>
              <span className={classes.message}>{line.message}</span>
            </div>
          ))}
        </div>
      )}
    </Panel>
  );
}

/** All lines so far; while the task may write more, the server is asked to wait for the next one. */
function useLog(id: string, status: State): LogLine[] {
  const [lines, setLines] = useState<LogLine[]>([]);
  const last = useRef(0);
  const ended = FINAL.has(status) || status === "dead";
  useEffect(() => {
    const ending = new AbortController();
    void read(ending.signal);
    return () => ending.abort();

    async function read(signal: AbortSignal) {
      while (!signal.aborted) {
        try {
          const found = await logLines(id, last.current, ended || document.hidden ? 0 : WAIT_SECONDS, signal);
          if (found.length > 0) {
            last.current = found.at(-1)?.id ?? last.current;
            setLines((before) => [...before, ...found].slice(-MOST));
          } else if (ended) return;
          else if (document.hidden) await pause(AGAIN_MS);
        } catch {
          if (!signal.aborted) await pause(AGAIN_MS);
        }
      }
    }
  }, [id, ended]);
  return lines;
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((done) => setTimeout(done, milliseconds));
}
