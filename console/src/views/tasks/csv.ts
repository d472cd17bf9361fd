/**
 * A table as CSV (RFC 4180). No cell is a formula to a spreadsheet: an apostrophe stands before what would begin one,
 * also behind what some spreadsheets take for the end of a cell.
 */
export function csvOf(heads: string[], rows: string[][]): string {
  return [heads, ...rows]
    .map((row) => row.map(cell).join(","))
    .join("\r\n")
    .concat("\r\n");
}

const NUMBER = /^-?\d+(\.\d+)?$/;
const FORMULA = /(^|[;|\t\r\n])(?=\s*[=+\-@\uff1d\uff0b\uff0d\uff20])/g;

function cell(text: string): string {
  const marked = NUMBER.test(text) ? text : text.replace(FORMULA, "$1'");
  const safe = /^[\t\r\n]/.test(marked) ? `'${marked}` : marked;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Let the browser keep a text as a file. */
export function keep(name: string, text: string): void {
  const address = URL.createObjectURL(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
