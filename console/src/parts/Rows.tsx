import type { ReactNode } from "react";
import classes from "./Rows.module.css";

interface Head {
  text: string;
  number?: boolean;
  /** Takes what the others leave. */
  wide?: boolean;
  title?: string;
}

interface Props {
  label: string;
  heads: Head[];
  children: ReactNode;
}

/** A short table: `<tr>`s with `<td data-number>` for what is read as a number. For long ones there is `views/tasks`. */
export function Rows({ label, heads, children }: Props) {
  return (
    <table className={classes.rows} aria-label={label}>
      <thead>
        <tr>
          {heads.map((head, at) => (
            <th
              key={head.text || at}
              scope="col"
              data-number={head.number || undefined}
              data-wide={head.wide || undefined}
              title={head.title}
            >
              {head.text}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}
