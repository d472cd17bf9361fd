import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { themeCss } from "./scripts/theme-css.ts";

export default defineConfig({
  plugins: [react(), themeCss()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: "../src/headgate/console",
    emptyOutDir: true,
    assetsInlineLimit: 0, // the Content-Security-Policy lets nothing in that is not a file of ours
    manifest: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": { target: "http://127.0.0.1:8000", changeOrigin: true } } },
  test: { environment: "happy-dom", setupFiles: ["./src/testing/setup.ts"], include: ["src/**/*.test.{ts,tsx}"] },
});
