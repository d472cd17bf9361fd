import { Title } from "@mantine/core";
import { type ReactNode, useId } from "react";
import classes from "./Panel.module.css";

interface Props {
  title?: ReactNode;
  actions?: ReactNode;
  /** Rows that reach the edges: a table, a list. */
  flush?: boolean;
  children: ReactNode;
}

/** One subject of a page. */
export function Panel({ title, actions, flush, children }: Props) {
  const id = useId();
  return (
    <section className={classes.panel} aria-labelledby={title ? id : undefined}>
      {title || actions ? (
        <div className={classes.head}>
          <Title order={2} id={id}>
            {title}
          </Title>
          <div className={classes.actions}>{actions}</div>
        </div>
      ) : null}
      <div className={classes.body} data-flush={flush || undefined}>
        {children}
      </div>
    </section>
  );
}
