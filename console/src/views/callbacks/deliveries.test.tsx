import { MantineProvider } from "@mantine/core";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it, vi } from "vitest";
import { type Delivery, nextLook } from "@/services/callbacks";
import { Spoken } from "@/testing/Spoken";
import { Deliveries } from "./Deliveries";

const SENT: Delivery = {
  id: 4,
  webhook_id: "msg_4",
  task_id: 17,
  tenant_id: 0,
  type: "report",
  kind: "success",
  status: "delivered",
  attempts: 1,
  next_attempt_at: null,
  receiver_rests_until: null,
  host: "hooks.example.org",
  last_status: 204,
  last_error: null,
  created_at: "2026-11-16T12:00:00Z",
  update_date: "2026-11-16T12:00:01Z",
  delivered_at: "2026-11-16T12:00:01Z",
};
const FAILED: Delivery = {
  ...SENT,
  id: 5,
  task_id: 18,
  status: "undeliverable",
  attempts: 20,
  last_status: null,
  last_error: "connection refused",
  delivered_at: null,
};

async function shown(deliveries: Delivery[], acts: { onOpen?: () => void; onRedeliver?: () => void } = {}) {
  const list = () => (
    <Deliveries deliveries={deliveries} onOpen={acts.onOpen ?? (() => {})} onRedeliver={acts.onRedeliver} />
  );
  const router = createRouter({ routeTree: createRootRoute({ component: list }), history: createMemoryHistory() });
  render(
    <MantineProvider env="test">
      <Spoken>
        <RouterProvider router={router as never} />
      </Spoken>
    </MantineProvider>,
  );
  await screen.findByRole("table");
}

describe("the list of callbacks", () => {
  it("makes one that cannot be delivered stand out, with the receiver's last word", async () => {
    await shown([SENT, FAILED]);
    const row = screen.getByText("undeliverable").closest("tr");
    expect(row?.dataset.status).toBe("undeliverable");
    expect(within(row as HTMLElement).getByText("no answer · connection refused")).toBeTruthy();
  });

  it("sends one again when asked", async () => {
    const again = vi.fn();
    await shown([SENT, FAILED], { onRedeliver: again });
    await userEvent.click(screen.getByRole("button", { name: "Send again: callback 5" }));
    expect(again).toHaveBeenCalledWith(FAILED);
  });

  it("does not offer that without the role", async () => {
    await shown([FAILED]);
    expect(screen.queryByRole("button", { name: /again/ })).toBeNull();
  });
});

describe("when a list of callbacks is asked again", () => {
  it("is when the first pending one is to be sent", () => {
    const at = Date.parse("2026-11-16T12:00:00Z");
    const waits = (seconds: number): Delivery => ({
      ...SENT,
      status: "pending",
      next_attempt_at: new Date(at + seconds * 1000).toISOString(),
    });
    expect(nextLook([waits(60), waits(20), SENT], at)).toBe(20_500);
  });

  it("is never, if nothing is pending", () => {
    expect(nextLook([SENT, FAILED], 0)).toBe(false);
  });
});
