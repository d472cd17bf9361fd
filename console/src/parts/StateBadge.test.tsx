import { render, screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";
import { STATES } from "@/services/states";
import { Spoken } from "@/testing/Spoken";
import { StateBadge } from "./StateBadge";

const shown = (status: string) =>
  render(
    <Spoken>
      <StateBadge status={status} asked="cancel" />
    </Spoken>,
  );

describe("a task that was asked to end", () => {
  it("says that it is ending while it runs", () => {
    shown("running");
    expect(screen.getByText("stopping")).toBeDefined();
  });

  it.each(["cancelled", "succeeded", "failed", "partial", "resolved", "dead"])(
    "does not say so when it is %s",
    (state) => {
      expect(STATES).toContain(state);
      shown(state);
      expect(screen.queryByText("stopping")).toBeNull();
    },
  );
});
