import { Modal, type ModalProps } from "@mantine/core";
import { useTexts } from "@/texts";

interface Props extends Omit<ModalProps, "opened"> {
  /** Something is under way: it cannot be left before it has ended or was stopped. */
  locked?: boolean;
}

/** A dialog that is open as long as it is there. */
export function Dialog({ locked = false, ...props }: Props) {
  const t = useTexts().common;
  return (
    <Modal
      opened
      closeButtonProps={{ "aria-label": t.close }}
      withCloseButton={!locked}
      closeOnEscape={!locked}
      closeOnClickOutside={!locked}
      {...props}
    />
  );
}
