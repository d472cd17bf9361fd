import { Button, Modal, Text, Textarea, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Plain } from "@/parts/Json";
import { ProblemNote } from "@/parts/ProblemNote";
import { confirmDone } from "@/parts/problems";
import { deal } from "@/services/desk";
import type { Task } from "@/services/tasks";
import { useTexts } from "@/texts";
import { type Draft, draftOf, editOf, NUMERIC, type Wrong, wrongWith } from "./edit";
import { Changes, possible, Refused } from "./Outcomes";
import classes from "./page.module.css";

interface Props {
  ids: number[];
  /** The one task that is edited; null: what is said is merged into many. */
  task: Task | null;
  onClose: () => void;
  onDone: () => void;
}

/** Mend a dead task's arguments, or those of many, see what that changes, and run them again. */
export function EditReplay({ ids, task, onClose, onDone }: Props) {
  const t = useTexts();
  const words = t.desk;
  const [draft, setDraft] = useState<Draft>(() => draftOf(task));
  const [tried, setTried] = useState(false);
  const wrong = wrongWith(draft, task);
  const edit = editOf(draft, task);
  const foresee = useMutation({ mutationFn: () => deal(ids, "replay", { edit }, true) });
  const would = possible(foresee.data ?? []);
  const replay = useMutation({
    mutationFn: () => deal(would, "replay", { edit }, false),
    onSuccess: (outcomes) => {
      const done = possible(outcomes).length;
      if (done > 0) confirmDone(words.done.replay(done));
      if (done === outcomes.length) onDone();
    },
  });
  const send = () => {
    setTried(true);
    if (foresee.data) replay.mutate();
    else if (Object.keys(wrong).length === 0) foresee.mutate();
  };
  const seen = foresee.data;

  return (
    <Modal
      opened
      onClose={replay.data ? onDone : onClose}
      title={<strong>{task ? words.edit.titleOne(task.id) : words.edit.titleMany(ids.length)}</strong>}
      size="xl"
      closeButtonProps={{ "aria-label": t.common.close }}
    >
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        {seen ? (
          <>
            <Text fw={600}>{words.would(would.length, ids.length)}</Text>
            <Refused outcomes={replay.data ?? seen} />
            {replay.data ? null : <Changes outcomes={seen} />}
          </>
        ) : (
          <Fields
            task={task}
            draft={draft}
            wrong={tried ? wrong : {}}
            set={(change) => setDraft((before) => ({ ...before, ...change }))}
          />
        )}
        {foresee.error ? <ProblemNote error={foresee.error} /> : null}
        {replay.error ? <ProblemNote error={replay.error} /> : null}
        <div className={classes.foot}>
          <Button variant="default" onClick={replay.data ? onDone : seen ? () => foresee.reset() : onClose}>
            {replay.data ? t.common.close : seen ? words.edit.back : t.common.cancel}
          </Button>
          {replay.data ? null : (
            <Button
              type="submit"
              loading={foresee.isPending || replay.isPending}
              disabled={seen !== undefined && would.length === 0}
            >
              {seen ? words.doIt.replay(would.length) : words.edit.preview}
            </Button>
          )}
        </div>
      </form>
    </Modal>
  );
}

interface FieldsProps {
  task: Task | null;
  draft: Draft;
  wrong: Wrong;
  set: (change: Partial<Draft>) => void;
}

function Fields({ task, draft, wrong, set }: FieldsProps) {
  const t = useTexts().desk.edit;
  const bad = wrong.ext === undefined ? null : wrong.ext === "object" ? t.badObject : t.badJson(wrong.ext.json);
  return (
    <>
      {task?.error_info ? (
        <div className={classes.error}>
          <Text size="xs" c="dimmed">
            {t.diedOf}
          </Text>
          <Plain text={task.error_info} />
        </div>
      ) : null}
      <Textarea
        className={classes.mono ?? ""}
        label={task ? t.ext : t.merge}
        description={task ? t.extAbout : t.mergeAbout}
        value={draft.ext}
        autosize
        minRows={6}
        maxRows={18}
        spellCheck={false}
        error={bad}
        onChange={(event) => set({ ext: event.currentTarget.value })}
        data-autofocus
      />
      <div className={classes.pair}>
        <TextInput
          label={t.lane}
          placeholder={t.stays}
          value={draft.lane}
          maxLength={255}
          onChange={(event) => set({ lane: event.currentTarget.value })}
        />
        {NUMERIC.map((name) => (
          <TextInput
            key={name}
            label={t[name]}
            placeholder={t.stays}
            inputMode="decimal"
            value={draft[name]}
            error={wrong.numbers?.has(name) ? t.number : null}
            onChange={(event) => set({ [name]: event.currentTarget.value })}
          />
        ))}
      </div>
    </>
  );
}
