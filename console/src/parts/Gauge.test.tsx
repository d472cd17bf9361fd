import { render } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import type { Tone } from "@/services/states";
import { Spoken } from "@/testing/Spoken";
import { Gauge } from "./Gauge";

const toneOf = (value: number, full?: Tone) => {
  const { container } = render(
    <Spoken>
      <Gauge label="Downloaded" value={value} most={3} {...(full ? { full } : {})} />
    </Spoken>,
  );
  return container.querySelector("[data-tone]")?.getAttribute("data-tone");
};

describe("a gauge", () => {
  it("warns of a lane that is full", () => {
    expect([toneOf(2), toneOf(3)]).toEqual(["good", "warn"]);
  });

  it("does not warn of what is complete", () => {
    expect(toneOf(3, "good")).toBe("good");
  });
});
