import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useSession } from "@/app/session";
import { ActDialog, DANGEROUS } from "@/parts/ActDialog";
import { complain } from "@/parts/problems";
import type { Act } from "@/services/acts";
import { may } from "@/services/session";
import { VERBS } from "@/services/tasks";
import { useTexts } from "@/texts";
import classes from "./Selection.module.css";

interface Props {
  selected: ReadonlySet<number>;
  /** The ids of all that match, as many as there may be. */
  matching: () => Promise<number[]>;
  onSelect: (ids: number[]) => void;
  onClear: () => void;
}

/** What can be done with the tasks that are selected. */
export function Selection({ selected, matching, onSelect, onClear }: Props) {
  const t = useTexts();
  const mayAct = may(useSession(), "operator");
  const [act, setAct] = useState<Act | null>(null);
  const all = useMutation({ mutationFn: matching, onSuccess: onSelect, onError: (error) => complain(error, t) });
  if (selected.size === 0) return null;
  return (
    <div className={classes.bar} role="toolbar" aria-label={t.tasks.selected(selected.size)}>
      <strong>{t.tasks.selected(selected.size)}</strong>
      <Button variant="subtle" loading={all.isPending} onClick={() => all.mutate()}>
        {t.tasks.selectMatching}
      </Button>
      <span className={classes.gap} />
      {mayAct
        ? VERBS.map((verb) => (
            <Button
              key={verb}
              variant="default"
              {...(DANGEROUS.has(verb) ? { c: "var(--tone-alarm)" } : {})}
              onClick={() => setAct({ verb, ids: [...selected] })}
            >
              {t.acts.verbs[verb]}
            </Button>
          ))
        : null}
      <Button variant="subtle" color="gray" onClick={onClear}>
        {t.tasks.clear}
      </Button>
      {act ? <ActDialog act={act} onClose={() => setAct(null)} /> : null}
    </div>
  );
}
