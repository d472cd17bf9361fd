import { describe, expect, it } from "vitest";
import { csvOf } from "./csv";

describe("a CSV file", () => {
  it("quotes what would break it", () => {
    expect(
      csvOf(
        ["a", "b"],
        [
          ['say "hi"', "1,2"],
          ["two\nlines", ""],
        ],
      ),
    ).toBe('a,b\r\n"say ""hi""","1,2"\r\n"two\nlines",\r\n');
  });

  it.each([
    "=1+1",
    "+1",
    "-cmd",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "\n",
    " =1",
    "＝1+1",
    "＠SUM(A1)",
    '=HYPERLINK("http://x")',
  ])("holds no formula, whatever a task is called: %s", (text) => {
    const [, row = ""] = csvOf(["a"], [[text]]).split("a\r\n");
    expect(row.replace(/^"/, "")).toMatch(/^'/);
  });

  it.each(["a;=1+1", "a; +1", "a\n=1", "a\t@x", "a|-1", "a;＝1"])(
    "holds no formula behind what another spreadsheet takes for the end of a cell: %s",
    (text) => {
      expect(csvOf(["a"], [[text]])).not.toMatch(/[;|\t\n]\s*[=+\-@＝]/);
    },
  );

  it("leaves numbers as they are", () => {
    expect(csvOf(["a"], [["-12.5"], ["17"]])).toBe("a\r\n-12.5\r\n17\r\n");
  });
});
