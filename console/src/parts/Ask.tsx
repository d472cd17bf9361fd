import { Button, Group, Text } from "@mantine/core";
import { createContext, type ReactNode, useCallback, useContext, useState } from "react";
import { useTexts } from "@/texts";
import { Dialog } from "./Dialog";

interface Question {
  title: string;
  body: ReactNode;
  /** What is on the button that does it. */
  yes: string;
  /** It takes something away that does not come back. */
  danger?: boolean;
}

type Ask = (question: Question) => Promise<boolean>;
const Context = createContext<Ask | null>(null);

/** Asks before something is done that cannot be undone by doing the opposite. */
export function AskProvider({ children }: { children: ReactNode }) {
  const t = useTexts().common;
  const [asked, setAsked] = useState<{ question: Question; answer: (yes: boolean) => void } | null>(null);
  const ask = useCallback<Ask>((question) => new Promise((answer) => setAsked({ question, answer })), []);
  const answer = (yes: boolean) => {
    asked?.answer(yes);
    setAsked(null);
  };
  return (
    <Context value={ask}>
      {children}
      {asked ? (
        <Dialog onClose={() => answer(false)} title={asked.question.title}>
          <Text mb="md">{asked.question.body}</Text>
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={() => answer(false)} data-autofocus={asked.question.danger || undefined}>
              {t.back}
            </Button>
            <Button
              color={asked.question.danger ? "red" : "brand"}
              onClick={() => answer(true)}
              data-autofocus={asked.question.danger ? undefined : true}
            >
              {asked.question.yes}
            </Button>
          </Group>
        </Dialog>
      ) : null}
    </Context>
  );
}

/** Ask the person at the screen; false if they would rather not. */
export function useAsk(): Ask {
  const ask = useContext(Context);
  if (!ask) throw new Error("no AskProvider");
  return ask;
}
