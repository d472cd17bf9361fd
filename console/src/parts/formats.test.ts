import { expect, it } from "vitest";
import { figure } from "./formats";

it("a figure that is not nothing is never told as nothing", () => {
  expect([0.0042, 0.25, 3.46, 120.4, 12_345].map(figure)).toEqual(["0.0042", "0.25", "3.5", "120", "12k"]);
});
