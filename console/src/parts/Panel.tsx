import { Title } from "@mantine/core";
import { type ReactNode, useId } from "react";
import classes from "./Panel.module.css";
import { Scrolls } from "./Scrolls";

interface Props {
  /** Its place in the address, behind `#`. */
  place?: string;
  title?: ReactNode;
  actions?: ReactNode;
  /** Rows that reach the edges: a table, a list. */
  flush?: boolean;
  children: ReactNode;
}

/** One subject of a page. */
export function Panel({ place, title, actions, flush, children }: Props) {
  const id = useId();
  return (
    <section id={place} className={classes.panel} aria-labelledby={title ? id : undefined}>
      {title || actions ? (
        <div className={classes.head}>
          <Title order={2} id={id}>
            {title}
          </Title>
          <div className={classes.actions}>{actions}</div>
        </div>
      ) : null}
      {flush ? <Scrolls>{children}</Scrolls> : <div className={classes.body}>{children}</div>}
    </section>
  );
}
