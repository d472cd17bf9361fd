import { Alert, Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog } from "@/parts/Dialog";
import { Plain } from "@/parts/Json";
import { ProblemNote } from "@/parts/ProblemNote";
import { type MadeKey, makeFirstKey, makeKey } from "@/services/keys";
import { type Role, sessionQuery } from "@/services/session";
import { useTexts } from "@/texts";

interface Props {
  /** There is none yet: it must be one that lets its maker stay. */
  first: boolean;
  onClose: () => void;
}

const ROLES: Role[] = ["read", "submit", "agent", "operator", "admin"];
const DAY_MS = 86_400_000;

/** Make a key, and show its secret this once. */
export function NewKeyDialog({ first, onClose }: Props) {
  const t = useTexts();
  const words = t.keys;
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>(first ? "admin" : "operator");
  const [tenant, setTenant] = useState("");
  const [days, setDays] = useState("");
  const wrong = tenant !== "" && !/^-?\d{1,15}$/.test(tenant);
  const making = useMutation({
    mutationFn: async (): Promise<MadeKey> => {
      const wanted = {
        name: name.trim(),
        role,
        tenant_id: tenant === "" ? null : Number(tenant),
        expires_at: days === "" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString(),
      };
      if (!first) return makeKey(wanted);
      const { made, session } = await makeFirstKey(wanted);
      client.setQueryData(sessionQuery.queryKey, session);
      return made;
    },
  });
  if (making.data) return <Made made={making.data} onClose={onClose} />;

  return (
    <Dialog onClose={onClose} title={first ? words.firstTitle : words.make}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          making.mutate();
        }}
      >
        <Stack gap="sm">
          {first ? <Text>{words.firstAbout}</Text> : null}
          <TextInput
            label={words.name}
            description={words.nameAbout}
            value={name}
            maxLength={255}
            onChange={(event) => setName(event.currentTarget.value)}
            required
            data-autofocus
          />
          {first ? null : (
            <>
              <Select
                label={words.role}
                description={words.roles[role]}
                data={ROLES.map((each) => ({ value: each, label: t.app.roles[each] }))}
                value={role}
                allowDeselect={false}
                onChange={(next) => setRole(next as Role)}
              />
              <TextInput
                label={words.tenant}
                description={words.tenantAbout}
                value={tenant}
                error={wrong}
                inputMode="numeric"
                onChange={(event) => setTenant(event.currentTarget.value.trim())}
              />
              <Select
                label={words.expires}
                data={Object.entries(words.days).map(([value, label]) => ({ value, label }))}
                value={days}
                allowDeselect={false}
                onChange={(next) => setDays(next ?? "")}
              />
            </>
          )}
          {making.error ? <ProblemNote error={making.error} /> : null}
          <Group justify="flex-end" gap="xs">
            <Button variant="default" onClick={onClose}>
              {t.common.cancel}
            </Button>
            <Button type="submit" disabled={!name.trim() || wrong} loading={making.isPending}>
              {words.make}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

function Made({ made, onClose }: { made: MadeKey; onClose: () => void }) {
  const words = useTexts().keys;
  return (
    <Dialog onClose={onClose} title={words.madeTitle} closeOnClickOutside={false} closeOnEscape={false} size="lg">
      <Stack gap="sm">
        <Alert color="yellow">{words.madeAbout}</Alert>
        <Plain text={made.key} />
        {made.secret_key ? (
          <>
            <Text size="xs" c="dimmed">
              {words.secretKey}
            </Text>
            <Plain text={made.secret_key} />
          </>
        ) : null}
        <Group justify="flex-end">
          <Button onClick={onClose}>{words.done}</Button>
        </Group>
      </Stack>
    </Dialog>
  );
}
