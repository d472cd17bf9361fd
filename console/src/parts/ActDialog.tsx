import { Alert, Button, Group, List, NumberInput, Text, Textarea } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Act, type Done, groupsOf } from "@/services/acts";
import { actOnMany, type Verb, type Words } from "@/services/tasks";
import { useTexts } from "@/texts";
import { Dialog } from "./Dialog";
import { ProblemNote } from "./ProblemNote";
import { confirmDone } from "./problems";

interface Props {
  act: Act;
  onClose: () => void;
}

const DANGEROUS: ReadonlySet<Verb> = new Set<Verb>(["cancel", "discard"]);

/** One action on one task or many: first what it would do, then the words that go with it, then what came of it. */
export function ActDialog({ act: { verb, ids }, onClose }: Props) {
  const t = useTexts();
  const words = t.acts;
  const [said, setSaid] = useState<Words>({});
  const foreseen = useQuery({
    queryKey: ["foreseen", verb, ids],
    queryFn: () => actOnMany(ids, verb, {}, true),
    gcTime: 0,
  });
  const doing = useMutation({
    mutationFn: () => actOnMany(possible(foreseen.data ?? []), verb, said, false),
    onSuccess: (done) => {
      const refused = done.filter((each) => each.problem).length;
      if (refused === 0) {
        confirmDone(words.done[verb](done.length));
        onClose();
      }
    },
  });
  const would = possible(foreseen.data ?? []).length;
  const missing =
    (verb === "resolve" && !said.remark?.trim()) || (verb === "reschedule" && said.delaySeconds === undefined);

  return (
    <Dialog onClose={onClose} title={words.verbs[verb]} size="lg">
      <Text mb="sm">{words.about[verb]}</Text>
      {foreseen.error ? <ProblemNote error={foreseen.error} retry={() => foreseen.refetch()} /> : null}
      {foreseen.isPending ? <Text c="dimmed">{words.looking}</Text> : null}
      {foreseen.data && !doing.data ? <Outcome would={would} done={foreseen.data} foreseen /> : null}
      {doing.data ? <Outcome would={would} done={doing.data} /> : null}
      {would > 0 && !doing.data ? <Fields verb={verb} said={said} onChange={setSaid} /> : null}
      {doing.error ? <ProblemNote error={doing.error} /> : null}
      <Group justify="flex-end" gap="xs" mt="md">
        <Button variant="default" onClick={onClose}>
          {doing.data || would === 0 ? t.common.close : t.common.cancel}
        </Button>
        {doing.data || would === 0 ? null : (
          <Button
            color={DANGEROUS.has(verb) ? "red" : "brand"}
            loading={doing.isPending}
            disabled={missing}
            onClick={() => doing.mutate()}
          >
            {words.doIt[verb](would)}
          </Button>
        )}
      </Group>
    </Dialog>
  );
}

function possible(done: Done[]): number[] {
  return done.filter((each) => !each.problem).map((each) => each.id);
}

/** What would be done, or was; and of what was refused, how many for which reason. */
function Outcome({ would, done, foreseen }: { would: number; done: Done[]; foreseen?: boolean }) {
  const words = useTexts().acts;
  const refused = groupsOf(done);
  return (
    <>
      {foreseen ? <Text fw={600}>{words.would(would, done.length)}</Text> : null}
      {refused.length > 0 ? (
        <Alert color="yellow" mt="xs" title={words.refused(done.filter((each) => each.problem).length)}>
          <List size="sm">
            {refused.map(([reason, count]) => (
              <List.Item key={reason}>
                {count} × {reason}
              </List.Item>
            ))}
          </List>
        </Alert>
      ) : null}
    </>
  );
}

interface FieldsProps {
  verb: Verb;
  said: Words;
  onChange: (said: Words) => void;
}

function Fields({ verb, said, onChange }: FieldsProps) {
  const words = useTexts().acts;
  if (verb === "cancel") {
    return (
      <Textarea
        mt="sm"
        label={words.reason}
        description={words.reasonAbout}
        value={said.reason ?? ""}
        maxLength={255}
        onChange={(event) => onChange({ reason: event.currentTarget.value })}
        data-autofocus
      />
    );
  }
  if (verb === "resolve") {
    return (
      <Textarea
        mt="sm"
        required
        label={words.remark}
        description={words.remarkAbout}
        value={said.remark ?? ""}
        maxLength={4000}
        onChange={(event) => onChange({ remark: event.currentTarget.value })}
        data-autofocus
      />
    );
  }
  if (verb === "prioritize") {
    return (
      <NumberInput
        mt="sm"
        label={words.priority}
        description={words.priorityAbout}
        value={said.priority ?? ""}
        allowDecimal={false}
        onChange={(value) => onChange({ priority: value === "" ? null : Number(value) })}
        data-autofocus
      />
    );
  }
  if (verb === "reschedule") {
    return (
      <NumberInput
        mt="sm"
        required
        label={words.delay}
        description={words.delayAbout}
        value={said.delaySeconds === undefined ? "" : said.delaySeconds / 60}
        min={0}
        max={52_704_000}
        onChange={(value) => onChange(value === "" ? {} : { delaySeconds: Math.round(Number(value) * 60) })}
        data-autofocus
      />
    );
  }
  return null;
}
