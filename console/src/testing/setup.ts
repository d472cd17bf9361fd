import { cleanup } from "@testing-library/react";
import { afterEach, vi } from "vitest";

// What the browser has and the test environment does not.
vi.stubGlobal(
  "matchMedia",
  vi.fn((media: string) => ({ matches: false, media, addEventListener: () => {}, removeEventListener: () => {} })),
);

afterEach(cleanup);
