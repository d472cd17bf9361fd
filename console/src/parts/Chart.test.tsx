import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { Spoken } from "@/testing/Spoken";
import { Chart, type Line } from "./Chart";
import { duration } from "./formats";

const AT = [0, 10, 20];

const legendOf = (line: Pick<Line, "values" | "stands">) => {
  render(
    <MantineProvider env="test">
      <Spoken>
        <Chart
          title="Latency"
          at={AT}
          from={0}
          to={20}
          format={duration}
          lines={[{ label: "p95", tone: "live", ...line }]}
        />
      </Spoken>
    </MantineProvider>,
  );
  return screen.getByText("p95").textContent;
};

describe("the value beside the name of a line", () => {
  it("is the last one", () => {
    expect(legendOf({ values: [1, 2, 3] })).toBe("p95 3.0 s");
  });

  it("is none when nothing happened lately, however slow it was before", () => {
    expect(legendOf({ values: [30, 30, null] })).toBe("p95 –");
  });

  it("is what was measured last, of what stands until it is measured again", () => {
    expect(legendOf({ values: [1, 2, null], stands: true })).toBe("p95 2.0 s");
  });
});
