// An agent for Headgate in JavaScript, with nothing but Node (20 or later): runs tasks, one at a time.
//
//   node agent.mjs http://127.0.0.1:8000 agent-1
//
// A key, if the server wants one, is read from HEADGATE_KEY.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const [server, agentId] = process.argv.slice(2);
if (process.argv.length !== 4) {
  console.error("usage: node agent.mjs SERVER AGENT_ID");
  process.exit(2);
}
const LEASE_SECONDS = 30;
const BEAT_SECONDS = 5;

class Fatal extends Error {} // running again will not help

// What this agent does, by type: (ext, { signal, progress, log }) → result. Whatever waits should obey the signal.
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

const stopping = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => stopping.abort());

// One call. A 409 says that the task is somebody else's by now.
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

async function runTask(task) {
  const at = `tasks/${task.id}`;
  const own = { exec_id: task.exec_id };
  const until = () => Date.now() > Date.parse(task.executing_deadline);
  if (task.status === "scheduling") await surely(`${at}/start`, own, { until }); // assigned: confirm the start
  const stop = new AbortController(); // its reason: "cancel", "gone", or "leave" when the agent itself is to end
  const hear = (answer) => answer.control === "cancel" && stop.abort("cancel");
  const tell = async (what, said) => hear(await surely(`${at}/${what}`, { ...own, ...said }, { until }));
  const leave = () => stop.abort("leave");
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
      const said = { error_info: String(error.stack ?? error).slice(0, 8000), retryable: error instanceof Fatal ? false : null };
      await surely(`${at}/fail`, { ...own, ...said }, { until });
    }
  } finally {
    clearInterval(beating);
    stopping.signal.removeEventListener("abort", leave);
  }
}

while (!stopping.signal.aborted) {
  // The same claim_id until there is an answer: tasks whose hand-over got lost are handed over again.
  const wanted = {
    types: Object.keys(handlers), wait_seconds: 20, lease_seconds: LEASE_SECONDS, instance: `${process.pid}`,
    claim_id: randomUUID(),
  };
  try {
    const signal = () => AbortSignal.any([AbortSignal.timeout(40_000), stopping.signal]);
    const { tasks } = await surely("claim", wanted, { signal, until: () => stopping.signal.aborted });
    for (const task of tasks) await runTask(task);
  } catch (error) {
    if (stopping.signal.aborted) break;
    if (error.status !== 409) throw error;
  }
}
