/**
 * After the build: every file is packed, as it will be sent; and the first load of the overview is at most 250 kB of
 * JavaScript, compressed, or the build fails.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { brotliCompressSync, gzipSync } from "node:zlib";

const BUILT = new URL("../../src/headgate/console/", import.meta.url);
const MOST_BYTES = 250_000;
const manifest = JSON.parse(readFileSync(new URL(".vite/manifest.json", BUILT), "utf8"));

/** A chunk and all that it cannot be without. */
function needed(name, found = new Set()) {
  if (!found.has(name)) {
    found.add(name);
    for (const other of manifest[name].imports ?? []) needed(other, found);
  }
  return found;
}

const first = new Set(
  ["index.html", "src/views/overview/page.tsx", "src/texts/en.ts"].flatMap((name) => [...needed(name)]),
);
const sizes = [...first]
  .filter((name) => manifest[name].file.endsWith(".js"))
  .map((name) => [manifest[name].file, gzipSync(readFileSync(new URL(manifest[name].file, BUILT))).length]);
const total = sizes.reduce((sum, [, size]) => sum + size, 0);
const said = `first load: ${(total / 1000).toFixed(1)} kB of JavaScript, compressed, in ${sizes.length} files`;
if (total > MOST_BYTES) {
  for (const [file, size] of sizes.sort((a, b) => b[1] - a[1])) process.stderr.write(`${file} ${size}\n`);
  process.stderr.write(`${said}: at most ${MOST_BYTES / 1000} kB\n`);
  process.exit(1);
}
process.stdout.write(`${said}\n`);
rmSync(new URL(".vite", BUILT), { recursive: true });

for (const file of readdirSync(BUILT, { recursive: true }).filter((name) => /\.(js|css|svg|html)$/.test(name))) {
  const body = readFileSync(new URL(file, BUILT));
  writeFileSync(new URL(`${file}.gz`, BUILT), gzipSync(body, { level: 9 }));
  writeFileSync(new URL(`${file}.br`, BUILT), brotliCompressSync(body));
}
