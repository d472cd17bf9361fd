import { Button, Group, Select, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { pause, resume, type Subject } from "@/services/pauses";
import { useTexts } from "@/texts";
import { Dialog } from "./Dialog";
import { complain, confirmDone } from "./problems";

const HOURS = { "900": 0.25, "3600": 1, "14400": 4, "86400": 24 };
const LONGEST = 255;

interface Props {
  title: string;
  /** What is on the button that does it, if not the title. */
  yes?: string;
  about: ReactNode;
  /** null: not said yet. */
  subject: Subject | null;
  onClose: () => void;
  /** Where the subject is said. */
  children?: ReactNode;
}

/** Pause something: why, and until when, if somebody wants to say so. */
export function PauseDialog({ title, yes = title, about, subject, onClose, children }: Props) {
  const t = useTexts();
  const words = t.pauses;
  const [reason, setReason] = useState("");
  const [end, setEnd] = useState("");
  const [at, setAt] = useState("");
  const moment = end === "at" ? Date.parse(at) : end ? Date.now() + Number(end) * 1000 : null;
  const unsaid = subject === null || (moment !== null && !(moment > Date.now()));
  const change = useMutation({
    mutationFn: (what: Subject) => pause(what, reason.trim(), moment === null ? null : new Date(moment).toISOString()),
    onSuccess: (_, what) => {
      const undo = () => void resume(what).catch((error) => complain(error, t));
      confirmDone(words.isPaused(words.subject(what.scope, what.name)), undo);
      onClose();
    },
    onError: (error) => complain(error, t),
  });
  return (
    <Dialog onClose={onClose} title={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (subject && !unsaid) change.mutate(subject);
        }}
      >
        <Text mb="md">{about}</Text>
        {children}
        <TextInput
          label={words.reason}
          description={words.reasonAbout}
          value={reason}
          maxLength={LONGEST}
          onChange={(event) => setReason(event.currentTarget.value)}
          data-autofocus={children ? undefined : true}
        />
        <Select
          mt="sm"
          label={words.until}
          data={[
            { value: "", label: words.untilResumed },
            ...Object.entries(HOURS).map(([value, hours]) => ({ value, label: words.forHours(hours) })),
            { value: "at", label: words.untilTime },
          ]}
          value={end}
          allowDeselect={false}
          onChange={(next) => setEnd(next ?? "")}
        />
        {end === "at" ? (
          <TextInput
            mt="sm"
            type="datetime-local"
            label={words.endsAt}
            value={at}
            error={at !== "" && unsaid ? words.endPast : undefined}
            onChange={(event) => setAt(event.currentTarget.value)}
          />
        ) : null}
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={onClose}>
            {t.common.back}
          </Button>
          <Button type="submit" disabled={unsaid} loading={change.isPending}>
            {yes}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
