import { Alert, Button, Collapse, Drawer, Switch } from "@mantine/core";
import { IconChevronRight } from "@tabler/icons-react";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ProblemNote } from "@/parts/ProblemNote";
import { confirmDone } from "@/parts/problems";
import { type Schedule, saveSchedule, scheduleQuery } from "@/services/periodic";
import { useTexts } from "@/texts";
import { bodyOf, type Draft, draftOf, wrongWith } from "./draft";
import { Further, What, When } from "./fields";
import { Policies } from "./Policies";
import classes from "./page.module.css";

interface Props {
  /** null: a new one. */
  id: number | null;
  onClose: () => void;
  onSaved: (id: number) => void;
}

/** Make a schedule, or change one: what it would do is shown before it is saved. */
export function Form({ id, onClose, onSaved }: Props) {
  const texts = useTexts();
  const t = texts.periodic.form;
  const { close } = texts.common;
  const known = useQuery({ ...scheduleQuery(id ?? 0), enabled: id !== null, refetchInterval: false });
  return (
    <Drawer
      closeButtonProps={{ "aria-label": close }}
      opened
      onClose={onClose}
      position="right"
      size="xl"
      title={<strong>{id === null ? t.makeTitle : t.editTitle(id)}</strong>}
    >
      {known.error ? <ProblemNote error={known.error} retry={() => known.refetch()} /> : null}
      {id === null || known.data ? <Fields schedule={known.data ?? null} onClose={onClose} onSaved={onSaved} /> : null}
    </Drawer>
  );
}

interface FieldsProps {
  schedule: Schedule | null;
  onClose: () => void;
  onSaved: (id: number) => void;
}

/** The fields keep what was there when the form was opened: nothing changes under somebody's hands. */
function Fields({ schedule, onClose, onSaved }: FieldsProps) {
  const t = useTexts();
  const words = t.periodic.form;
  const [draft, setDraft] = useState<Draft>(() =>
    draftOf(schedule, Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC"),
  );
  const [tried, setTried] = useState(false);
  const [more, setMore] = useState(Object.keys(schedule?.task ?? {}).length > 0);
  const set = (change: Partial<Draft>) => setDraft((before) => ({ ...before, ...change }));
  const wrong = wrongWith(draft);
  const saving = useMutation({
    mutationFn: () => saveSchedule(schedule?.id ?? null, bodyOf(draft, schedule === null)),
    onSuccess: (saved) => {
      confirmDone(schedule ? words.saved : words.made(saved.id));
      onSaved(saved.id);
    },
  });
  const shown = tried ? wrong : {};
  const send = () => {
    setTried(true);
    if (Object.keys(wrong).length === 0) saving.mutate();
    else if (wrong.numbers) setMore(true);
  };

  return (
    <form
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {schedule ? (
        <Alert color="gray" mb="md">
          {words.editNote}
        </Alert>
      ) : null}
      <When draft={draft} wrong={shown} set={set} />
      <What draft={draft} wrong={shown} set={set} />
      <Policies draft={draft} set={set} />
      <Button
        variant="subtle"
        color="gray"
        mb="sm"
        aria-expanded={more}
        leftSection={<IconChevronRight size={14} style={{ transform: more ? "rotate(90deg)" : undefined }} />}
        onClick={() => setMore(!more)}
      >
        {words.further}
      </Button>
      <Collapse expanded={more}>
        <Further draft={draft} wrong={shown} set={set} isNew={schedule === null} />
      </Collapse>
      {saving.error ? <ProblemNote error={saving.error} /> : null}
      <div className={classes.foot}>
        {schedule === null ? (
          <Switch
            label={words.online}
            checked={draft.online}
            onChange={(event) => set({ online: event.currentTarget.checked })}
          />
        ) : (
          <span />
        )}
        <Button variant="default" onClick={onClose}>
          {t.common.cancel}
        </Button>
        <Button type="submit" loading={saving.isPending}>
          {words.save}
        </Button>
      </div>
    </form>
  );
}
