import { Button, Checkbox, Group, Stack, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog } from "@/parts/Dialog";
import { ProblemNote } from "@/parts/ProblemNote";
import { confirmDone } from "@/parts/problems";
import { createSubscription } from "@/services/subscriptions";
import { useTexts } from "@/texts";

export function NewSubscriptionDialog({ onClose }: { onClose: () => void }) {
  const t = useTexts();
  const words = t.subscriptions;
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [requiresCookie, setRequiresCookie] = useState(false);
  const making = useMutation({
    mutationFn: () => createSubscription({ name: name.trim(), url: url.trim(), requires_cookie: requiresCookie }),
    onSuccess: (made) => {
      confirmDone(words.made(made.name));
      onClose();
    },
  });
  return (
    <Dialog onClose={onClose} title={words.make}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          making.mutate();
        }}
      >
        <Stack gap="sm">
          <TextInput
            label={words.name}
            value={name}
            maxLength={255}
            onChange={(event) => setName(event.currentTarget.value)}
            required
            data-autofocus
          />
          <TextInput
            label={words.url}
            placeholder="https://…"
            value={url}
            maxLength={4096}
            onChange={(event) => setUrl(event.currentTarget.value)}
            required
          />
          <Checkbox
            label={words.requiresCookie}
            description={words.requiresCookieAbout}
            checked={requiresCookie}
            onChange={(event) => setRequiresCookie(event.currentTarget.checked)}
          />
          {making.error ? <ProblemNote error={making.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {t.common.cancel}
            </Button>
            <Button type="submit" disabled={!name.trim() || !url.trim()} loading={making.isPending}>
              {words.make}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}
