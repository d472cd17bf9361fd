// A receiver of Headgate's callbacks in JavaScript, with nothing but Node (20 or later): verifies, de-duplicates, prints.
//
//   AK=us SK=a-secret-of-24-characters node receiver.mjs 9000
//
// Either signature is enough; this one wants both. Behind a proxy, path and Host must be those that were sent.
import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const { AK, SK } = process.env;
if (!AK || !SK || !/^\d+$/.test(process.argv[2] ?? "")) {
  console.error("usage: AK=… SK=… node receiver.mjs PORT");
  process.exit(2);
}
const WINDOW_SECONDS = 300;
const seen = new Set(); // keep it with your own data, in the transaction that does what the callback asks for

const same = (one, other) => {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
};
const isRecent = (timestamp) =>
  /^\d+$/.test(timestamp ?? "") && Math.abs(Date.now() / 1000 - Number(timestamp)) <= WINDOW_SECONDS;

// Standard Webhooks: `v1,` and the HMAC of `id.timestamp.body`; several signatures are separated by spaces.
function verifyWebhook(headers, body) {
  const key = SK.startsWith("whsec_") ? Buffer.from(SK.slice(6), "base64") : SK;
  const made = createHmac("sha256", key).update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`).update(body);
  const signature = `v1,${made.digest("base64")}`;
  const signatures = (headers["webhook-signature"] ?? "").split(" ");
  return isRecent(headers["webhook-timestamp"]) && signatures.some((each) => same(signature, each));
}

// AK/SK: the scheme of Headgate's own API, eight lines.
function verifyAuthorization(method, target, headers, body) {
  const [, scheme, rest] = /^(\S+) (.*)$/.exec(headers.authorization ?? "") ?? [];
  const said = Object.fromEntries((rest ?? "").split(",").map((part) => part.trim().split(/=(.*)/s).slice(0, 2)));
  if (scheme !== "HEADGATE-HMAC-SHA256" || !said.access_key || !said.nonce || !said.signature) return false;
  const [path, query = ""] = target.split(/\?(.*)/s);
  const name = (pair) => pair.split("=")[0];
  const pairs = query.split("&").filter(Boolean);
  pairs.sort((a, b) => (name(a) < name(b) ? -1 : name(a) > name(b) ? 1 : 0)); // keeps the order of one name
  const hash = createHash("sha256").update(body).digest("hex");
  const lines = [scheme, method, path, pairs.join("&"), headers.host.toLowerCase(), hash, said.timestamp, said.nonce];
  const made = createHmac("sha256", SK).update(lines.join("\n")).digest("hex");
  return same(AK, said.access_key) && isRecent(said.timestamp) && same(made, said.signature);
}

const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const body = Buffer.concat(parts);
  const { headers, method, url } = request;
  const known = headers["webhook-id"] !== undefined && verifyWebhook(headers, body);
  if (!known || !verifyAuthorization(method, url, headers, body)) {
    response.writeHead(401).end();
    return;
  }
  if (!seen.has(headers["webhook-id"])) { // a repetition is answered like the first, and does nothing
    seen.add(headers["webhook-id"]);
    console.log(JSON.stringify({ path: url, told: JSON.parse(body) }));
  }
  response.writeHead(204).end();
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
process.on("SIGTERM", () => process.exit());
