import { Alert, Button, Drawer, Loader, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "@/app/session";
import { useAsk } from "@/parts/Ask";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { may } from "@/services/session";
import { rehearseType, removeType, saveType, type TaskType, typeNow } from "@/services/types";
import { useTexts } from "@/texts";
import { bodyOf, type Draft, draftOf, wrongWith } from "./draft";
import { Basics, Failing } from "./fields";
import classes from "./page.module.css";
import { Receivers } from "./Receivers";
import { Review } from "./Review";
import { rebased } from "./rebase";
import { Unique } from "./Unique";

interface Props {
  /** null: a new one. */
  type: TaskType | null;
  onClose: () => void;
}

/** A type's form: filled in, then reviewed as what the server says it would mean, then saved. */
export function Form({ type, onClose }: Props) {
  const t = useTexts();
  const words = t.types.form;
  const admin = may(useSession(), "admin");
  const [known] = useState(type); // nothing changes under somebody's hands
  const [draft, setDraft] = useState<Draft>(() => draftOf(known));
  const [tried, setTried] = useState(false);
  const [reviewing, setReviewing] = useState(false);
  const set = (change: Partial<Draft>) => setDraft((before) => ({ ...before, ...change }));
  const wrong = wrongWith(draft, known);
  const code = draft.code.trim();
  // What others change meanwhile stays: it is asked for the review, and once more before it is saved.
  const body = async () => (known ? rebased(draft, known, await typeNow(code)) : bodyOf(draft, null));
  const saving = useMutation({
    mutationFn: async () => saveType(code, await body()),
    onSuccess: () => {
      confirmDone(words.saved(code));
      onClose();
    },
  });
  const rehearsing = useMutation({ mutationFn: async () => rehearseType(code, await body()) });
  const review = () => {
    setTried(true);
    if (Object.keys(wrong).length > 0) return;
    setReviewing(true);
    rehearsing.mutate();
  };
  const back = () => {
    setReviewing(false);
    saving.reset();
  };
  const fields = { draft, set, wrong: tried ? wrong : {} };

  return (
    <Drawer
      closeButtonProps={{ "aria-label": t.common.close }}
      opened
      onClose={onClose}
      position="right"
      size="xl"
      title={<strong>{known ? known.code : words.makeTitle}</strong>}
    >
      <form
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!reviewing) review();
          else if (rehearsing.isSuccess) saving.mutate();
        }}
      >
        {reviewing ? (
          <>
            {rehearsing.isPending ? <Loader size="sm" mb="md" aria-label={t.common.loading} /> : null}
            {rehearsing.error ? <ProblemNote error={rehearsing.error} /> : null}
            {rehearsing.data ? <Review foreseen={rehearsing.data} isNew={known === null} /> : null}
          </>
        ) : (
          <>
            {admin ? null : (
              <Alert color="gray" mb="md">
                {words.readOnly}
              </Alert>
            )}
            {known ? <SaidBy type={known} /> : null}
            <Basics {...fields} isNew={known === null} />
            <Unique {...fields} />
            <Failing {...fields} />
            <Receivers {...fields} before={known} />
          </>
        )}
        {saving.error ? <ProblemNote error={saving.error} /> : null}
        <div className={classes.foot}>
          {known && admin && !reviewing ? <Remove code={known.code} onRemoved={onClose} /> : <span />}
          <Button variant="default" onClick={reviewing ? back : onClose}>
            {reviewing ? words.back : t.common.cancel}
          </Button>
          {admin ? (
            <Button type="submit" loading={saving.isPending} disabled={reviewing && !rehearsing.isSuccess}>
              {reviewing ? words.save : words.review}
            </Button>
          ) : null}
        </div>
      </form>
    </Drawer>
  );
}

/** Whose word holds: a person's, or that of the program that declared it. */
function SaidBy({ type }: { type: TaskType }) {
  const words = useTexts().types.form;
  if (!type.edited && !type.declared_by) return null;
  return (
    <Text size="sm" c="dimmed" mb="md">
      {type.edited ? words.edited : null} {type.declared_by ? words.declaredBy(type.declared_by) : null}
    </Text>
  );
}

function Remove({ code, onRemoved }: { code: string; onRemoved: () => void }) {
  const t = useTexts();
  const words = t.types.form;
  const ask = useAsk();
  const removing = useMutation({
    mutationFn: () => removeType(code),
    onSuccess: () => {
      confirmDone(words.removed(code));
      onRemoved();
    },
    onError: (error) => complain(error, t),
  });
  const start = async () => {
    const yes = await ask({ title: words.remove, body: words.removeAsk(code), yes: words.remove, danger: true });
    if (yes) removing.mutate();
  };
  return (
    <Button variant="subtle" color="red" loading={removing.isPending} onClick={() => void start()}>
      {words.remove}
    </Button>
  );
}
