import { Button, Text, Textarea, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { BulkBar } from "@/parts/BulkBar";
import { Dialog } from "@/parts/Dialog";
import { Plain } from "@/parts/Json";
import { ProblemNote } from "@/parts/ProblemNote";
import { confirmDone } from "@/parts/problems";
import { useBulk } from "@/parts/useBulk";
import { inCalls } from "@/services/bulk";
import { deal } from "@/services/desk";
import type { Task } from "@/services/tasks";
import { useTexts } from "@/texts";
import classes from "./EditReplay.module.css";
import { type Draft, draftOf, editOf, NUMERIC, type Wrong, wrongWith } from "./edit";
import { Changes, possible, Refused } from "./Outcomes";

interface Props {
  ids: number[];
  /** The one task that is edited; null: what is said is merged into many. */
  task: Task | null;
  onClose: () => void;
  onDone: () => void;
}

/** Mend a dead or failed task's arguments, or those of many, see what that changes, and run them again. */
export function EditReplay({ ids, task, onClose, onDone }: Props) {
  const t = useTexts();
  const words = t.desk;
  const [draft, setDraft] = useState<Draft>(() => draftOf(task));
  const [tried, setTried] = useState(false);
  const wrong = wrongWith(draft, task);
  const edit = editOf(draft, task);
  const foresee = useMutation({ mutationFn: () => inCalls(ids, (some) => deal(some, "replay", { edit }, true)) });
  const would = possible(foresee.data ?? []);
  const replay = useBulk(
    (some: number[]) => deal(some, "replay", { edit }, false),
    (outcomes) => {
      if (possible(outcomes).length < outcomes.length) return;
      confirmDone(words.done.replay(outcomes.length));
      onDone();
    },
  );
  const begun = replay.running || replay.over;
  const send = () => {
    setTried(true);
    if (foresee.data) replay.start(would);
    else if (Object.keys(wrong).length === 0) foresee.mutate();
  };
  const seen = foresee.data;

  return (
    <Dialog
      onClose={replay.over ? onDone : onClose}
      title={<strong>{task ? words.edit.titleOne(task.id) : words.edit.titleMany(ids.length)}</strong>}
      size="xl"
      locked={replay.running}
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
            {begun ? null : <Text fw={600}>{words.would(would.length, ids.length)}</Text>}
            <BulkBar bulk={replay} result={words.done.replay} />
            <Refused outcomes={begun ? replay.done : seen} />
            {begun ? null : <Changes outcomes={seen} />}
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
        {replay.running ? null : (
          <div className={classes.foot}>
            <Button variant="default" onClick={replay.over ? onDone : seen ? () => foresee.reset() : onClose}>
              {replay.over ? t.common.close : t.common.back}
            </Button>
            {replay.over ? null : (
              <Button type="submit" loading={foresee.isPending} disabled={seen !== undefined && would.length === 0}>
                {seen ? words.doIt.replay(would.length) : words.edit.preview}
              </Button>
            )}
          </div>
        )}
      </form>
    </Dialog>
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
