import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { Problem } from "@/services/problem";
import { Spoken } from "@/testing/Spoken";
import { BulkBar } from "./BulkBar";

const bar = (error: unknown, of = 500, reached = 200) => {
  const done = Array.from({ length: reached }, () => ({ problem: null }));
  const bulk = { done, of, running: false, over: true, stopping: false, error, start: () => {}, stop: () => {} };
  render(
    <MantineProvider>
      <Spoken>
        <BulkBar bulk={bulk} result={(count) => `${count} done`} />
      </Spoken>
    </MantineProvider>,
  );
};

describe("an act on many tasks", () => {
  it("that was stopped left the rest as it is", () => {
    bar(undefined);
    expect(screen.getByText("Stopped: 300 tasks were left as they are.")).toBeDefined();
  });

  it("whose last call got no answer says that the result is unknown", () => {
    bar(new Problem(0, "", ""));
    expect(screen.getByText("No answer came: the result for 200 tasks is unknown.")).toBeDefined();
    expect(screen.getByText("100 tasks were left as they are.")).toBeDefined();
  });

  it("whose last call was refused left the rest as it is", () => {
    bar(new Problem(403, "", ""));
    expect(screen.queryByText(/not known/)).toBeNull();
    expect(screen.getByText("300 tasks were left as they are.")).toBeDefined();
  });
});
