import { Button, type ButtonProps } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { pause as again, type Pause, resume, type Subject } from "@/services/pauses";
import { useTexts } from "@/texts";
import { complain, confirmDone } from "./problems";
import { RowButton } from "./RowButton";

// Loaded when somebody asks for it.
const PauseDialog = lazy(() => import("./PauseDialog").then((module) => ({ default: module.PauseDialog })));

interface Props {
  subject: Subject;
  /** The pause that holds it, if one does. */
  pause: Pause | null | undefined;
  /** What the button is called, by what it does; it is the dialog's title too. */
  labels?: { pause: string; resume: string };
  about?: string;
  /** One word is enough, beside what it is about. */
  short?: boolean;
  /** In a row of a table. */
  inRow?: boolean;
  look?: Pick<ButtonProps, "variant" | "color">;
}

/** Pauses something, after asking why and until when; or resumes it at once. */
export function PauseButton({ subject, pause, labels, about, short, inRow, look = { variant: "default" } }: Props) {
  const t = useTexts();
  const words = t.pauses;
  const [asking, setAsking] = useState(false);
  const name = words.subject(subject.scope, subject.name);
  const title = labels ?? { pause: words.pause(name), resume: words.resume(name) };
  const resuming = useMutation({
    mutationFn: () => resume(subject),
    onMutate: () => pause,
    onSuccess: (_, __, before) =>
      confirmDone(words.isResumed(name), () => {
        if (before) again(subject, before.reason, before.until).catch((error) => complain(error, t));
      }),
    onError: (error) => complain(error, t),
  });
  const label = pause ? title.resume : title.pause;
  const click = () => (pause ? resuming.mutate() : setAsking(true));
  const face = pause ? words.faces.resume : words.faces.pause;
  return (
    <>
      {inRow ? (
        <RowButton label={label} face={face} onClick={click} loading={resuming.isPending} />
      ) : (
        <Button
          {...look}
          aria-label={label}
          leftSection={pause ? <IconPlayerPlay size={14} /> : <IconPlayerPause size={14} />}
          onClick={click}
          loading={resuming.isPending}
        >
          {short ? face : label}
        </Button>
      )}
      {asking ? (
        <Suspense>
          <PauseDialog
            title={title.pause}
            about={about ?? words.about(name)}
            subject={subject}
            onClose={() => setAsking(false)}
          />
        </Suspense>
      ) : null}
    </>
  );
}
