import { ActionIcon, CopyButton, Tooltip } from "@mantine/core";
import { IconCheck, IconChevronRight, IconCopy } from "@tabler/icons-react";
import { useState } from "react";
import { Exact } from "@/services/json";
import { useTexts } from "@/texts";
import classes from "./Json.module.css";

interface Props {
  value: unknown;
  /** How many levels are open at first. */
  open?: number;
}

/** JSON to be read: what is long or deep is folded, and all of it can be copied. */
export function Json({ value, open = 2 }: Props) {
  return (
    <div className={classes.json}>
      <Copy text={written(value)} />
      <Value value={value} open={open} />
    </div>
  );
}

/** Text as it is: a traceback, a message. */
export function Plain({ text }: { text: string }) {
  return (
    <div className={classes.json}>
      <Copy text={text} />
      <pre className={classes.plain}>{text}</pre>
    </div>
  );
}

export function Copy({ text }: { text: string }) {
  const t = useTexts().common;
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? t.copied : t.copy}>
          <ActionIcon className={classes.copy} aria-label={t.copy} onClick={copy} size="sm">
            {copied ? <IconCheck size={13} /> : <IconCopy size={13} />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
  );
}

const LONGEST = 400;
const MOST = 100;

function Value({ value, open }: { value: unknown; open: number }) {
  if (typeof value === "string") return <Text text={value} />;
  if (value instanceof Exact) return <span className={classes.number}>{value.digits}</span>;
  if (typeof value === "number") return <span className={classes.number}>{String(value)}</span>;
  if (typeof value !== "object" || value === null) return <span className={classes.word}>{String(value)}</span>;
  return Array.isArray(value) ? (
    <Branch marks={["[", "]"]} entries={value.map((each, at) => [String(at), each])} open={open} />
  ) : (
    <Branch marks={["{", "}"]} entries={Object.entries(value)} open={open} named />
  );
}

interface BranchProps {
  marks: [string, string];
  entries: [string, unknown][];
  open: number;
  named?: boolean;
}

function Branch({ marks, entries, open, named }: BranchProps) {
  const t = useTexts().common;
  const [shown, setShown] = useState(open > 0 && entries.length <= MOST);
  const [most, setMost] = useState(MOST);
  if (entries.length === 0) return <span className={classes.mark}>{marks.join("")}</span>;
  return (
    <span>
      <button type="button" className={classes.fold} aria-expanded={shown} onClick={() => setShown(!shown)}>
        <IconChevronRight size={12} /> {marks[0]}
        {shown ? null : ` ${entries.length} ${marks[1]}`}
      </button>
      {shown ? (
        <>
          <ul className={classes.branch}>
            {entries.slice(0, most).map(([name, inner]) => (
              <li key={name}>
                {named ? <span className={classes.name}>{name}: </span> : null}
                <Value value={inner} open={open - 1} />
              </li>
            ))}
          </ul>
          {entries.length > most ? (
            <button type="button" className={classes.fold} onClick={() => setMost(most + 10 * MOST)}>
              {t.more} ({entries.length - most})
            </button>
          ) : null}
          <span className={classes.mark}>{marks[1]}</span>
        </>
      ) : null}
    </span>
  );
}

function Text({ text }: { text: string }) {
  const t = useTexts().common;
  const [whole, setWhole] = useState(false);
  const long = text.length > LONGEST && !whole;
  return (
    <span className={classes.text}>
      "{long ? text.slice(0, LONGEST) : text}"
      {long ? (
        <button type="button" className={classes.fold} onClick={() => setWhole(true)}>
          … {t.more} ({text.length - LONGEST})
        </button>
      ) : null}
    </span>
  );
}

/** As JSON, with every number in its own digits. */
export function written(value: unknown): string {
  const marks: string[] = [];
  const text = JSON.stringify(
    value,
    (_name, inner: unknown) => {
      if (!(inner instanceof Exact)) return inner;
      marks.push(inner.digits);
      return `\u0000${marks.length - 1}\u0000`;
    },
    2,
  );
  return (text ?? "").replace(/"\\u0000(\d+)\\u0000"/g, (_whole, at: string) => marks[Number(at)] ?? "");
}
