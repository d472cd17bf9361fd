import { Alert, Button, Drawer } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "@/app/session";
import { useAsk } from "@/parts/Ask";
import { ProblemNote } from "@/parts/ProblemNote";
import { complain, confirmDone } from "@/parts/problems";
import { may } from "@/services/session";
import { removeType, saveType, type TaskType } from "@/services/types";
import { useTexts } from "@/texts";
import { bodyOf, type Draft, draftOf, wrongWith } from "./draft";
import { Basics, Failing } from "./fields";
import classes from "./page.module.css";
import { Receivers } from "./Receivers";
import { Review } from "./Review";

interface Props {
  /** null: a new one. */
  type: TaskType | null;
  onClose: () => void;
}

/** A type's form: filled in, then reviewed as what would change, then saved. */
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
  const body = bodyOf(draft, known);
  const saving = useMutation({
    mutationFn: () => saveType(code, body),
    onSuccess: () => {
      confirmDone(words.saved(code));
      onClose();
    },
  });
  const review = () => {
    setTried(true);
    if (Object.keys(wrong).length === 0) setReviewing(true);
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
          if (reviewing) saving.mutate();
          else review();
        }}
      >
        {reviewing ? (
          <Review before={known} body={body} />
        ) : (
          <>
            {admin ? null : (
              <Alert color="gray" mb="md">
                {words.readOnly}
              </Alert>
            )}
            <Basics {...fields} isNew={known === null} />
            <Failing {...fields} />
            <Receivers {...fields} before={known} />
          </>
        )}
        {saving.error ? <ProblemNote error={saving.error} /> : null}
        <div className={classes.foot}>
          {known && admin && !reviewing ? <Remove code={known.code} onRemoved={onClose} /> : <span />}
          <Button variant="default" onClick={() => (reviewing ? setReviewing(false) : onClose())}>
            {reviewing ? words.back : t.common.cancel}
          </Button>
          {admin ? (
            <Button type="submit" loading={saving.isPending}>
              {reviewing ? words.save : words.review}
            </Button>
          ) : null}
        </div>
      </form>
    </Drawer>
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
