import { Button, Modal, Text, Textarea } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ProblemNote } from "@/parts/ProblemNote";
import { confirmDone } from "@/parts/problems";
import { type DeskVerb, deal } from "@/services/desk";
import { useTexts } from "@/texts";
import { possible, Refused } from "./Outcomes";
import classes from "./page.module.css";

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
  const foreseen = useQuery({
    queryKey: ["dead-letters", "foreseen", verb, ids],
    queryFn: () => deal(ids, verb, {}, true),
    gcTime: 0,
  });
  const would = possible(foreseen.data ?? []);
  const doing = useMutation({
    mutationFn: () => deal(would, verb, { remark: remark.trim() }, false),
    onSuccess: (outcomes) => {
      const done = possible(outcomes).length;
      if (done > 0) confirmDone(words.done[verb](done));
      if (done === outcomes.length) onDone();
    },
  });
  const over = Boolean(doing.data) || (foreseen.data && would.length === 0);
  const missing = verb === "resolve" && !remark.trim();

  return (
    <Modal
      opened
      onClose={doing.data ? onDone : onClose}
      title={<strong>{words.verbs[verb]}</strong>}
      size="lg"
      closeButtonProps={{ "aria-label": t.common.close }}
    >
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!missing) doing.mutate();
        }}
      >
        <Text mb="sm">{words.verbsAbout[verb]}</Text>
        {foreseen.error ? <ProblemNote error={foreseen.error} retry={() => foreseen.refetch()} /> : null}
        {foreseen.isPending ? <Text c="dimmed">{words.looking}</Text> : null}
        {foreseen.data && !doing.data ? <Text fw={600}>{words.would(would.length, ids.length)}</Text> : null}
        <Refused outcomes={doing.data ?? foreseen.data ?? []} />
        {verb === "replay" || over ? null : (
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
        {doing.error ? <ProblemNote error={doing.error} /> : null}
        <div className={classes.foot}>
          <Button variant="default" onClick={doing.data ? onDone : onClose}>
            {over ? t.common.close : t.common.cancel}
          </Button>
          {over ? null : (
            <Button
              type="submit"
              color={verb === "discard" ? "red" : "brand"}
              loading={doing.isPending}
              disabled={missing || would.length === 0}
            >
              {words.doIt[verb](would.length)}
            </Button>
          )}
        </div>
      </form>
    </Modal>
  );
}
