import { Modal, type ModalProps } from "@mantine/core";
import { useTexts } from "@/texts";

/** A dialog that is open as long as it is there. */
export function Dialog(props: Omit<ModalProps, "opened">) {
  const t = useTexts().common;
  return <Modal opened closeButtonProps={{ "aria-label": t.close }} {...props} />;
}
