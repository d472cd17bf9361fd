import { ActionIcon, Button, type ButtonProps, Tooltip } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay } from "@tabler/icons-react";
import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { pause as again, type Pause, resume, type Subject } from "@/services/pauses";
import { useTexts } from "@/texts";
import { complain, confirmDone } from "./problems";

// Loaded when somebody asks for it.
const PauseDialog = lazy(() => import("./PauseDialog").then((module) => ({ default: module.PauseDialog })));

interface Props {
  subject: Subject;
  /** The pause that holds it, if one does. */
  pause: Pause | null | undefined;
  /** What the button is called, by what it does; it is the dialog's title too. */
  labels?: { pause: string; resume: string };
  /** What is on it, where that is less. */
  face?: { pause: string; resume: string };
  about?: string;
  /** A mere sign, for a row. */
  small?: boolean;
  look?: Pick<ButtonProps, "variant" | "color">;
}

/** Pauses something, after asking why and until when; or resumes it at once. */
export function PauseButton({ subject, pause, labels, face, about, small, look = { variant: "default" } }: Props) {
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
  const icon = pause ? <IconPlayerPlay size={small ? 15 : 14} /> : <IconPlayerPause size={small ? 15 : 14} />;
  return (
    <>
      {small ? (
        <Tooltip label={label}>
          <ActionIcon aria-label={label} onClick={click} loading={resuming.isPending}>
            {icon}
          </ActionIcon>
        </Tooltip>
      ) : (
        <Button {...look} aria-label={label} leftSection={icon} onClick={click} loading={resuming.isPending}>
          {face ? (pause ? face.resume : face.pause) : label}
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
