import { Title } from "@mantine/core";
import type { ComponentType, ReactNode } from "react";
import classes from "./Empty.module.css";

interface Props {
  icon: ComponentType<{ size?: number | string; stroke?: number | string }>;
  title: string;
  /** What would fill this place, and how. */
  children?: ReactNode;
}

/** Nothing is here yet: say what would be, and how it comes about. */
export function Empty({ icon: Icon, title, children }: Props) {
  return (
    <div className={classes.empty}>
      <Icon size={28} stroke={1.3} />
      <Title order={2}>{title}</Title>
      {children ? <div className={classes.words}>{children}</div> : null}
    </div>
  );
}
