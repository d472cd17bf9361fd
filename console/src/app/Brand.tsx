import classes from "./Brand.module.css";

/** A gate with water below it. */
export function Brand() {
  return (
    <span className={classes.brand}>
      <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="var(--mantine-color-brand-7)" />
        <path d="M9 8v16M23 8v16" stroke="#fff" strokeWidth="3" strokeLinecap="round" />
        <path d="M9 13h14" stroke="#fff" strokeWidth="3" />
        <path d="M14 24v-5M18 24v-5" stroke="#9be0ee" strokeWidth="2.5" strokeLinecap="round" />
      </svg>
      Headgate
    </span>
  );
}
