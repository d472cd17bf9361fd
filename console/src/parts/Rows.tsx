import { type CSSProperties, type ReactNode, useRef } from "react";
import classes from "./Rows.module.css";
import { useNarrower } from "./useNarrower";

interface Head {
  text: string;
  /** Instead of the text, where it is something to click. */
  control?: ReactNode;
  number?: boolean;
  /** Takes what the others leave. */
  wide?: boolean;
  title?: string;
  /** Needs no label where a row stands as a card: what is in it says what it is. */
  plain?: boolean;
}

interface Props {
  label: string;
  heads: Head[];
  /** With less room than this, in pixels, every row stands as a card. */
  cardsBelow?: number;
  children: ReactNode;
}

/**
 * A short table: `<tr>`s whose cells say what they hold. `data-number`: read as a number; `data-long`: a name or a text
 * that breaks into lines; `data-actions`: buttons. The row's `<th>`, or its `data-title`, is the first line of a card.
 * For long tables there is `views/tasks`.
 */
export function Rows({ label, heads, cardsBelow = 480, children }: Props) {
  const table = useRef<HTMLTableElement>(null);
  const cards = useNarrower(table, cardsBelow);
  return (
    <table
      ref={table}
      className={classes.rows}
      aria-label={label}
      data-cards={cards || undefined}
      style={labels(heads)}
    >
      <thead>
        <tr>
          {heads.map((head, at) => (
            <th
              key={head.text || at}
              scope="col"
              data-number={head.number || undefined}
              data-wide={head.wide || undefined}
              data-control={head.control ? true : undefined}
              title={head.title}
            >
              {head.control ?? head.text}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

/** The heads as the style sheet repeats them in the cells of a card. */
function labels(heads: Head[]): CSSProperties {
  const named = heads.map((head, at) => [
    `--head-${at + 1}`,
    head.text && !head.plain ? JSON.stringify(head.text) : "",
  ]);
  return Object.fromEntries(named.filter(([, text]) => text)) as CSSProperties;
}
