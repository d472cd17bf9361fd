import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { ReactNode, Ref } from "react";

interface Given {
  children?: ReactNode;
  ref?: Ref<HTMLAnchorElement>;
  href?: string;
}

/** A button that leads to a page. */
export const LinkButton = createLink((props: ButtonProps & Given) => <Button component="a" {...props} />);
/** A word that leads to a page. */
export const LinkText = createLink((props: AnchorProps & Given) => <Anchor {...props} />);
