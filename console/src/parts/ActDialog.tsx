import { Alert, Button, Group, List, NumberInput, Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Act, type Done, groupsOf } from "@/services/acts";
import { inCalls, MOST_AT_ONCE } from "@/services/bulk";
import { actOn, type Verb, type Words } from "@/services/tasks";
import { useTexts } from "@/texts";
import { BulkBar } from "./BulkBar";
import { Dialog } from "./Dialog";
import { ProblemNote } from "./ProblemNote";
import { confirmDone } from "./problems";
import { refusalText } from "./told";
import { useBulk } from "./useBulk";

interface Props {
  act: Act;
  onClose: () => void;
}

/** What ends tasks for good. */
export const DANGEROUS: ReadonlySet<Verb> = new Set<Verb>(["cancel", "discard"]);

/** One action on one task or many: first what it would do, then the words that go with it, then what came of it. */
export function ActDialog({ act: { verb, ids }, onClose }: Props) {
  const t = useTexts();
  const words = t.acts;
  const [said, setSaid] = useState<Words>({});
  const [looked, setLooked] = useState<Done[]>([]);
  const foreseen = useQuery({
    queryKey: ["foreseen", verb, ids],
    queryFn: ({ signal }) => inCalls(ids, (some) => actOn(some, verb, {}, true), setLooked, signal),
    gcTime: 0,
  });
  const doing = useBulk(
    (some: number[]) => actOn(some, verb, said, false),
    (done) => {
      if (done.every((each) => !each.problem)) {
        confirmDone(words.done[verb](done.length));
        onClose();
      }
    },
  );
  const possible = (foreseen.data ?? []).filter((each) => !each.problem).map((each) => each.id);
  const would = possible.length;
  const begun = doing.running || doing.over;
  const missing =
    (verb === "resolve" && !said.remark?.trim()) || (verb === "reschedule" && said.delaySeconds === undefined);

  return (
    <Dialog onClose={onClose} title={words.verbs[verb]} size="lg" locked={doing.running}>
      <Text mb="sm">{words.about[verb]}</Text>
      {foreseen.error ? <ProblemNote error={foreseen.error} retry={() => foreseen.refetch()} /> : null}
      {foreseen.isPending ? (
        <Text c="dimmed">
          {words.looking} {ids.length > MOST_AT_ONCE ? `${looked.length} / ${ids.length}` : ""}
        </Text>
      ) : null}
      {foreseen.data && !begun ? <Outcome would={would} done={foreseen.data} foreseen /> : null}
      <BulkBar bulk={doing} result={words.done[verb]} />
      {doing.over ? <Outcome would={would} done={doing.done} /> : null}
      {would > 0 && !begun ? <Fields verb={verb} said={said} onChange={setSaid} /> : null}
      {doing.running ? null : (
        <Group justify="flex-end" gap="xs" mt="md">
          <Button variant="default" onClick={onClose}>
            {doing.over || (foreseen.data && would === 0) ? t.common.close : t.common.back}
          </Button>
          {doing.over || would === 0 ? null : (
            <Button
              color={DANGEROUS.has(verb) ? "red" : "brand"}
              disabled={missing}
              onClick={() => doing.start(possible)}
            >
              {words.doIt[verb](would)}
            </Button>
          )}
        </Group>
      )}
    </Dialog>
  );
}

/** What would be done, or was; and of what was refused, how many for which reason. */
function Outcome({ would, done, foreseen }: { would: number; done: Done[]; foreseen?: boolean }) {
  const t = useTexts();
  const words = t.acts;
  const refused = groupsOf(done, (each) => refusalText(each, t) ?? each.problem ?? "");
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
