import { Switch } from "@mantine/core";
import { useTexts } from "@/texts";
import { Amount, type FieldsProps } from "./fields";
import classes from "./page.module.css";

/** Which submits make one task, and for how long. */
export function Unique({ draft, wrong, set }: FieldsProps) {
  const t = useTexts().types.form;
  const fields = { draft, wrong, set };
  return (
    <fieldset className={classes.group}>
      <legend>{t.unique}</legend>
      <Switch
        label={t.byArguments}
        description={t.byArgumentsAbout}
        checked={draft.byArguments}
        onChange={(event) => set({ byArguments: event.currentTarget.checked })}
      />
      <div className={classes.pair}>
        <Amount name="uniqueSeconds" about={t.uniqueSecondsAbout} {...fields} />
        <Amount name="debounce" about={t.debounceAbout} {...fields} />
        <Amount name="debounceLongest" about={t.debounceLongestAbout} {...fields} />
      </div>
      {draft.debounce.trim() ? (
        <Switch
          label={t.debounceReplace}
          checked={draft.debounceReplace}
          onChange={(event) => set({ debounceReplace: event.currentTarget.checked })}
        />
      ) : null}
    </fieldset>
  );
}
