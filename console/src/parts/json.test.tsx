import { MantineProvider } from "@mantine/core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";
import { parse } from "@/services/json";
import { Spoken } from "@/testing/Spoken";
import { Json, written } from "./Json";

const shown = (value: unknown) =>
  render(
    <MantineProvider env="test">
      <Spoken>
        <Json value={value} />
      </Spoken>
    </MantineProvider>,
  );

describe("JSON on a page", () => {
  it("shows a number that JavaScript cannot hold in its own digits", () => {
    const value = parse('{"id": 12345678901234567890123, "small": 7, "part": 0.1}');
    shown(value);
    expect(screen.getByText("12345678901234567890123")).toBeTruthy();
    expect(JSON.stringify(parse(written(value)))).toBe(JSON.stringify(value));
    expect(written(value)).toContain('"id": 12345678901234567890123,');
  });

  it("shows what looks like a tag as text", () => {
    shown({ name: "<img src=x onerror=alert(1)>" });
    expect(document.querySelector("img")).toBeNull();
    expect(screen.getByText(/<img src=x onerror=alert\(1\)>/)).toBeTruthy();
  });

  it("folds what is deep, and unfolds it when asked", async () => {
    shown({ a: { b: { c: "deep down" } } });
    expect(screen.queryByText(/deep down/)).toBeNull();
    await userEvent.click(screen.getByRole("button", { name: /1 }/ }));
    expect(screen.getByText(/deep down/)).toBeTruthy();
  });
});
