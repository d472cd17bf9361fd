/**
 * The theme's CSS variables as a file, made at build time: `import "virtual:theme.css"`. Mantine itself would write
 * them into a <style> tag, which our Content-Security-Policy forbids.
 */
import { convertCssVariables, DEFAULT_THEME, defaultCssVariablesResolver, mergeMantineTheme } from "@mantine/core";
import type { Plugin } from "vite";
import { theme } from "../src/app/theme.ts";

const NAME = "virtual:theme.css";

export function themeCss(): Plugin {
  return {
    name: "headgate-theme-css",
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load: (id) =>
      id === `\0${NAME}`
        ? convertCssVariables(defaultCssVariablesResolver(mergeMantineTheme(DEFAULT_THEME, theme)), ":root")
        : undefined,
  };
}
