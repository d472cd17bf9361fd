// A consumer for Headgate in JavaScript, with Node (20 or later) and amqplib: RabbitMQ delivers tasks, HTTP starts and
// ends them.
//
//   npm install amqplib
//   BROKER=amqp://user:password@rabbit node consumer.mjs http://127.0.0.1:8000 node-1
//
// A key, if the server wants one, is read from HEADGATE_KEY. While the broker is away it claims, as agent.mjs does.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import amqp from "amqplib";

const [server, agentId] = process.argv.slice(2);
const broker = process.env.BROKER;
if (process.argv.length !== 4 || !broker) {
  console.error("usage: BROKER=amqp://… node consumer.mjs SERVER AGENT_ID");
  process.exit(2);
}
const LEASE_SECONDS = 30;
const BEAT_SECONDS = 5;
const SLOTS = 4; // tasks at once

class Fatal extends Error {} // running again will not help

// What this consumer does, by type: (ext, { signal, progress, log }) → result. Whatever waits should obey the signal.
const handlers = {
  echo: async (ext) => ext,
  fail: async () => {
    throw new Fatal("it was bound to fail");
  },
  sleep: async (ext, { signal, progress }) => {
    await progress({ done: 0, total: ext.seconds });
    await sleep(ext.seconds * 1000, undefined, { signal });
    return "slept";
  },
};

const types = Object.keys(handlers);
const instance = randomUUID(); // this process: it keeps its own tasks, and no other's
const running = new Map(); // by exec_id: what has a slot, until it is over
let asked = 0; // slots kept free for what is being claimed
let link = null; // to the broker: connection, channel, and the tag of the consumer on each queue
let signedOn = null; // what the server said last: which queues there are, and whether anything is dispatched
let signOnAt = 0;
let woken = new AbortController();
const wake = () => woken.abort();
const stopping = new AbortController();
stopping.signal.addEventListener("abort", wake);
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => stopping.abort());

const stops = () => stopping.signal.aborted;
const free = () => (stops() ? 0 : SLOTS - running.size - asked);

// ---- the server ----

// One call. A 409 says that the task is somebody else's by now, or that this process was given up for lost.
async function post(path, body, signal = AbortSignal.timeout(20_000)) {
  const headers = { "Content-Type": "application/json" };
  if (process.env.HEADGATE_KEY) headers.Authorization = `Bearer ${process.env.HEADGATE_KEY}`;
  const response = await fetch(`${server}/api/agents/${encodeURIComponent(agentId)}/${path}`, {
    method: "POST", headers, body: JSON.stringify(body), signal,
  });
  const answer = await response.json();
  if (response.ok) return answer;
  throw Object.assign(new Error(answer.detail), { status: response.status });
}

// One call, made again and again, later each time, until the server has answered or nobody waits for it any more.
async function surely(path, body, { signal = () => undefined, until = () => false } = {}) {
  for (let pause = 0.5; ; pause = Math.min(pause * 2, 30)) {
    try {
      return await post(path, body, signal());
    } catch (error) {
      const answered = error.status !== undefined && error.status < 500 && error.status !== 429;
      if (answered || until()) throw error;
      console.error(`${path}: ${error.message}; trying again`);
      await sleep(Math.random() * pause * 1000);
    }
  }
}

// Says what this process takes from the broker, which renews its lease. Without a connection: nothing.
async function signOn() {
  const wanted = { types, slots: link && !stops() ? SLOTS : 0, instance, lease_seconds: LEASE_SECONDS };
  signedOn = await surely("consume", wanted, { until: stops });
  signOnAt = Date.now() + BEAT_SECONDS * 1000;
  // RabbitMQ 3.10 may deliver nothing more of a queue that was deleted and declared again, and does not say so.
  if (signedOn.stalled && link && free() > 0) drop(link, "tasks in the broker do not come");
}

// What the broker does not bring: it is away, or nobody dispatches.
async function claim() {
  const limit = free();
  if (limit <= 0) return;
  asked = limit;
  try {
    const wanted = {
      types, limit, wait_seconds: BEAT_SECONDS, lease_seconds: LEASE_SECONDS, instance, claim_id: randomUUID(),
    };
    const signal = () => AbortSignal.any([AbortSignal.timeout(40_000), stopping.signal]);
    const { tasks } = await surely("claim", wanted, { signal, until: stops });
    for (const task of tasks) fill(task.exec_id, () => runTask(task));
  } finally {
    asked = 0;
  }
}

// ---- a task ----

// Does something that has a slot until it is over.
async function fill(execId, work) {
  running.set(execId, work().catch((error) => console.error(`${execId}: ${error.message}`)));
  await running.get(execId);
  running.delete(execId);
  wake();
}

async function runTask(task) {
  const at = `tasks/${task.id}`;
  const own = { exec_id: task.exec_id };
  const until = () => Date.now() > Date.parse(task.executing_deadline);
  if (task.status === "scheduling") await surely(`${at}/start`, own, { until }); // claimed, and assigned to us
  const stop = new AbortController(); // its reason: "cancel", "gone", or "leave" when the process itself is to end
  const hear = (answer) => answer.control === "cancel" && stop.abort("cancel");
  const tell = async (what, said) => hear(await surely(`${at}/${what}`, { ...own, ...said }, { until }));
  const leave = () => stop.abort("leave");
  if (stops()) leave();
  stopping.signal.addEventListener("abort", leave);
  const beating = setInterval(async () => {
    try {
      hear(await post(`${at}/beat`, own));
    } catch (error) {
      if (error.status === 409 || error.status === 404) stop.abort("gone");
    }
  }, BEAT_SECONDS * 1000);
  try {
    const context = {
      signal: stop.signal,
      progress: (said) => tell("progress", said),
      log: (message, level = "info") => tell("log", { lines: [{ message, level }] }),
    };
    const result = await handlers[task.type](task.ext, context);
    await surely(`${at}/complete`, { ...own, result: result ?? null }, { until });
  } catch (error) {
    if (stop.signal.reason === "gone" || error.status === 409) return; // nothing we say would count
    if (stop.signal.reason === "cancel") await surely(`${at}/cancelled`, own, { until });
    else if (stop.signal.reason === "leave") await surely(`${at}/release`, own, { until });
    else {
      const info = String(error.stack ?? error).slice(0, 8000);
      const retryable = error instanceof Fatal ? false : null;
      await surely(`${at}/fail`, { ...own, error_info: info, retryable }, { until });
    }
  } finally {
    clearInterval(beating);
    stopping.signal.removeEventListener("abort", leave);
  }
}

// ---- messages ----

// A message. It is acknowledged when the start is committed: until then it belongs to whoever RabbitMQ gives it to.
async function take(from, message) {
  if (message === null) return drop(from, "a queue was deleted");
  const task = taskOf(message);
  if (task === null) return reply(from, (channel) => channel.nack(message, false, false)); // to the dead-letter queue
  if (running.has(task.exec_id)) return reply(from, (channel) => channel.ack(message)); // it came twice
  if (free() <= 0) {
    await stopConsuming(from); // else RabbitMQ would send it here again and again
    return reply(from, (channel) => channel.nack(message, false, true));
  }
  await fill(task.exec_id, async () => {
    const started = await start(task);
    reply(from, (channel) => channel.ack(message));
    if (started.outcome === "started") await runTask(started.task);
  });
}

// The task that a message names: its message id is the exec_id.
function taskOf({ properties: { messageId, headers } }) {
  const id = headers?.task_id;
  const good = Number.isSafeInteger(id) && id > 0 && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(messageId);
  return good ? { id, exec_id: messageId } : null;
}

// Asks until there is an answer, whatever becomes of the connection meanwhile: the task may have started and be ours.
async function start(task) {
  for (;;) {
    try {
      const { items: [item] } = await surely("start", { instance, tasks: [task] }, { until: stops });
      if (item.outcome !== "busy") return item;
      await sleep(50);
    } catch (error) {
      if (error.status !== 409) throw error;
      await signOn(); // our lease was over
    }
  }
}

// On a channel that has closed a reply is lost: the message comes again, and is stale.
function reply({ channel }, say) {
  try {
    say(channel);
  } catch (error) {
    console.error(`the broker: ${error.message}`);
  }
}

// ---- the broker ----

async function connect() {
  const url = new URL(broker);
  if (!url.searchParams.has("heartbeat")) url.searchParams.set("heartbeat", "10");
  const connection = await amqp.connect(url.href, { timeout: 10_000, clientProperties: { connection_name: agentId } });
  connection.on("error", () => {}); // it closes next
  try {
    const made = { connection, channel: await connection.createChannel(), tags: new Map() };
    connection.on("close", () => drop(made, "the connection was closed"));
    made.channel.on("error", (error) => drop(made, error.message));
    made.channel.on("close", () => drop(made, "the channel was closed"));
    await made.channel.prefetch(1); // on each queue: what else waits there goes to whoever is free
    console.error("the broker: connected");
    return made;
  } catch (error) {
    connection.close().catch(() => {});
    throw error;
  }
}

function drop(from, reason) {
  if (link !== from) return;
  console.error(`the broker: ${reason}; connecting again`);
  link = null;
  signOnAt = 0;
  from.connection.close().catch(() => {});
  wake();
}

// Queues are declared by whoever comes first, by all in the same way: RabbitMQ refuses other arguments.
async function consumeAll(to, { exchange, queues, arguments: how }) {
  for (const queue of queues.filter((each) => !to.tags.has(each))) {
    await to.channel.assertQueue(queue, { durable: true, arguments: how });
    await to.channel.bindQueue(queue, exchange, queue);
    to.tags.set(queue, (await to.channel.consume(queue, (message) => take(to, message))).consumerTag);
  }
}

async function stopConsuming({ channel, tags }) {
  const all = [...tags.values()];
  tags.clear();
  await Promise.all(all.map((tag) => channel.cancel(tag))).catch(() => {});
}

async function turn() {
  woken = new AbortController();
  try {
    if (link === null) {
      link = await connect();
      signOnAt = 0;
    }
  } catch (error) {
    console.error(`the broker: ${error.message}; tasks are claimed over HTTP meanwhile`);
  }
  if (Date.now() >= signOnAt) await signOn();
  const current = link;
  if (current && free() > 0) await consumeAll(current, signedOn).catch((error) => drop(current, error.message));
  if (link === null || !signedOn.dispatched) await claim();
  await sleep(link === null ? 500 : BEAT_SECONDS * 1000, undefined, { signal: woken.signal }).catch(() => {});
}

while (!stops()) {
  await turn().catch((error) => {
    if (!stops()) throw error; // the server refuses: the key, or it has no broker
  });
}
await signOn().catch(() => {}); // nothing more, please
await Promise.all(running.values());
await link?.connection.close().catch(() => {});
