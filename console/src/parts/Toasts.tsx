import { Button, CloseButton } from "@mantine/core";
import { useSyncExternalStore } from "react";
import { useTexts } from "@/texts";
import classes from "./Toasts.module.css";
import { dismiss, shownToasts, watchToasts } from "./toasting";

/** What was done and what did not work, in the corner of the screen. */
export function Toasts() {
  const t = useTexts().common;
  const toasts = useSyncExternalStore(watchToasts, shownToasts);
  return (
    <div className={classes.toasts} role="status" aria-live="polite">
      {toasts.map((toast) => (
        <div key={toast.id} className={classes.toast} data-tone={toast.tone}>
          <div className={classes.words}>
            {toast.title ? <strong>{toast.title}</strong> : null}
            <span>{toast.text}</span>
          </div>
          {toast.undo ? (
            <Button
              variant="subtle"
              onClick={() => {
                toast.undo?.();
                dismiss(toast.id);
              }}
            >
              {t.undo}
            </Button>
          ) : null}
          <CloseButton size="sm" aria-label={t.close} onClick={() => dismiss(toast.id)} />
        </div>
      ))}
    </div>
  );
}
