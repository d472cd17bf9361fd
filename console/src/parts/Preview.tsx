import classes from "./Preview.module.css";

/** JSON on one line, as much of it as there is room for. */
export function Preview({ value }: { value: unknown }) {
  if (value === null || value === undefined) return null;
  if (typeof value !== "object" || Array.isArray(value)) return <span className={classes.preview}>{short(value)}</span>;
  return (
    <span className={classes.preview}>
      {Object.entries(value).map(([name, inner]) => (
        <span key={name}>
          <i>{name}</i> {short(inner)}{" "}
        </span>
      ))}
    </span>
  );
}

const MOST = 80;

function short(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "");
  return text.length > MOST ? `${text.slice(0, MOST)}…` : text;
}
