import { Title } from "@mantine/core";
import type { ReactNode } from "react";
import classes from "./Page.module.css";

interface Props {
  title: ReactNode;
  /** Beside the title: what this is about, in a few words. */
  about?: ReactNode;
  actions?: ReactNode;
  /** The page fills the window and scrolls inside (a table), instead of as a whole. */
  fill?: boolean;
  children: ReactNode;
}

/** The frame of every page: its title, what can be done, and the rest. */
export function Page({ title, about, actions, fill, children }: Props) {
  return (
    <div className={classes.page} data-fill={fill || undefined}>
      <div className={classes.head}>
        <Title order={1}>{title}</Title>
        {about ? <div className={classes.about}>{about}</div> : null}
        <div className={classes.actions}>{actions}</div>
      </div>
      {children}
    </div>
  );
}
