import { Button, Text, Textarea } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { BulkBar } from "@/parts/BulkBar";
import { Dialog } from "@/parts/Dialog";
import classes from "@/parts/EditReplay.module.css";
import { possible, Refused } from "@/parts/Outcomes";
import { ProblemNote } from "@/parts/ProblemNote";
import { confirmDone } from "@/parts/problems";
import { useBulk } from "@/parts/useBulk";
import { inCalls, MOST_AT_ONCE } from "@/services/bulk";
import { type DeskVerb, deal, type Outcome } from "@/services/desk";
import { useTexts } from "@/texts";

interface Props {
  verb: DeskVerb;
  ids: number[];
  onClose: () => void;
  onDone: () => void;
}

/** Replay, resolve or discard: first what that would do, then the remark, then it is done. */
export function Deal({ verb, ids, onClose, onDone }: Props) {
  const t = useTexts();
  const words = t.desk;
  const [remark, setRemark] = useState("");
  const [looked, setLooked] = useState<Outcome[]>([]);
  const foreseen = useQuery({
    queryKey: ["dead-letters", "foreseen", verb, ids],
    queryFn: ({ signal }) => inCalls(ids, (some) => deal(some, verb, {}, true), setLooked, signal),
    gcTime: 0,
  });
  const would = possible(foreseen.data ?? []);
  const doing = useBulk(
    (some: number[]) => deal(some, verb, { remark: remark.trim() }, false),
    (outcomes) => {
      if (possible(outcomes).length < outcomes.length) return;
      confirmDone(words.done[verb](outcomes.length));
      onDone();
    },
  );
  const begun = doing.running || doing.over;
  const over = doing.over || (foreseen.data && would.length === 0);
  const missing = verb === "resolve" && !remark.trim();

  return (
    <Dialog
      onClose={doing.over ? onDone : onClose}
      title={<strong>{words.verbs[verb]}</strong>}
      size="lg"
      locked={doing.running}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!missing) doing.start(would);
        }}
      >
        <Text mb="sm">{words.verbsAbout[verb]}</Text>
        {foreseen.error ? <ProblemNote error={foreseen.error} retry={() => foreseen.refetch()} /> : null}
        {foreseen.isPending ? (
          <Text c="dimmed">
            {words.looking} {ids.length > MOST_AT_ONCE ? `${looked.length} / ${ids.length}` : ""}
          </Text>
        ) : null}
        {foreseen.data && !begun ? <Text fw={600}>{words.would(would.length, ids.length)}</Text> : null}
        <BulkBar bulk={doing} result={words.done[verb]} />
        <Refused outcomes={begun ? doing.done : (foreseen.data ?? [])} />
        {verb === "replay" || over || doing.running ? null : (
          <Textarea
            mt="sm"
            label={words.remark}
            description={verb === "resolve" ? words.remarkAbout : words.remarkWhy}
            required={verb === "resolve"}
            value={remark}
            maxLength={4000}
            autosize
            minRows={2}
            onChange={(event) => setRemark(event.currentTarget.value)}
            data-autofocus
          />
        )}
        {doing.running ? null : (
          <div className={classes.foot}>
            <Button variant="default" onClick={doing.over ? onDone : onClose}>
              {over ? t.common.close : t.common.back}
            </Button>
            {over ? null : (
              <Button
                type="submit"
                color={verb === "discard" ? "red" : "brand"}
                disabled={missing || would.length === 0}
              >
                {words.doIt[verb](would.length)}
              </Button>
            )}
          </div>
        )}
      </form>
    </Dialog>
  );
}
