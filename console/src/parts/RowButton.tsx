import { Button, type ButtonProps, Tooltip } from "@mantine/core";

interface Props extends Pick<ButtonProps, "loading" | "leftSection"> {
  /** What it does and to what, beginning with the word on it. */
  label: string;
  /** The word on it. */
  face: string;
  /** More about it, for who hesitates. */
  about?: string | undefined;
  /** Why it is off. */
  against?: string | null | undefined;
  danger?: boolean;
  onClick: () => void;
}

/** A button in a row: one word, because there is one in every row. One that is off can be reached, and says why. */
export function RowButton({ label, face, about, against, danger, onClick, ...rest }: Props) {
  const note = against ?? about;
  return (
    <Tooltip label={note} disabled={!note} multiline maw={320}>
      <Button
        size="compact-xs"
        variant="subtle"
        {...(against ? {} : { c: danger ? "var(--tone-alarm)" : "var(--mantine-color-anchor)" })}
        aria-label={label}
        {...(against ? { "aria-disabled": true, "data-disabled": true, "aria-description": against } : {})}
        {...rest}
        onClick={(event) => (against ? event.preventDefault() : onClick())}
      >
        {face}
      </Button>
    </Tooltip>
  );
}
