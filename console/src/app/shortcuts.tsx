import { Kbd } from "@mantine/core";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useState } from "react";
import { Dialog } from "@/parts/Dialog";
import { useTexts } from "@/texts";
import classes from "./shortcuts.module.css";

/** One thing that a key does, or two keys one after the other (`g t`). */
export interface Shortcut {
  keys: string;
  label: string;
  run: () => void;
}

const SECOND_KEY_MS = 1_200;

class Keyboard {
  readonly shortcuts = new Map<string, Shortcut>();
  private first = "";
  private forget: ReturnType<typeof setTimeout> | undefined;

  press(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    const keys = this.first ? `${this.first} ${event.key}` : event.key;
    const found = this.shortcuts.get(keys) ?? this.shortcuts.get(event.key);
    this.first = "";
    clearTimeout(this.forget);
    if (found) {
      event.preventDefault();
      found.run();
    } else if ([...this.shortcuts.keys()].some((known) => known.startsWith(`${event.key} `))) {
      this.first = event.key;
      this.forget = setTimeout(() => {
        this.first = "";
      }, SECOND_KEY_MS);
    }
  }
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

const Context = createContext<Keyboard | null>(null);

export function ShortcutsProvider({ children }: { children: ReactNode }) {
  const t = useTexts().app;
  const [keyboard] = useState(() => new Keyboard());
  const [helping, setHelping] = useState(false);
  useEffect(() => {
    const press = (event: KeyboardEvent) => keyboard.press(event);
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [keyboard]);
  useEffect(() => {
    keyboard.shortcuts.set("?", { keys: "?", label: t.showHelp, run: () => setHelping((shown) => !shown) });
  }, [keyboard, t]);
  return (
    <Context value={keyboard}>
      {children}
      {helping ? (
        <Dialog onClose={() => setHelping(false)} title={t.shortcuts}>
          <dl className={classes.list}>
            {[...keyboard.shortcuts.values()].map((shortcut) => (
              <div key={shortcut.keys}>
                <dt>
                  {shortcut.keys.split(" ").map((key) => (
                    <Kbd key={key}>{key}</Kbd>
                  ))}
                </dt>
                <dd>{shortcut.label}</dd>
              </div>
            ))}
          </dl>
        </Dialog>
      ) : null}
    </Context>
  );
}

/** Let keys do something while this component is there; they are shown in the help (`?`). */
export function useShortcuts(shortcuts: Shortcut[]): void {
  const keyboard = useContext(Context);
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  const keys = useMemo(() => shortcuts.map((each) => `${each.keys}\0${each.label}`).join("\0\0"), [shortcuts]);
  useEffect(() => {
    if (!keyboard) return;
    const mine = keys.split("\0\0").map((each) => each.split("\0"));
    for (const [pressed = "", label = ""] of mine) {
      const run = () => latest.current.find((each) => each.keys === pressed)?.run();
      keyboard.shortcuts.set(pressed, { keys: pressed, label, run });
    }
    return () => {
      for (const [pressed = ""] of mine) keyboard.shortcuts.delete(pressed);
    };
  }, [keyboard, keys]);
}
