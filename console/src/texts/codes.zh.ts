import { duration } from "@/parts/formats";
import type { Params, ReasonCode, RefusalCode, Sentence } from "@/services/codes";
import type { SchemaEndReason } from "@/services/schema";
import type { State } from "@/services/states";
import type { Texts } from "./en";
import { spaced } from "./pauses.zh";
import { acts, states } from "./shared.zh";

const SCOPES: Record<string, string> = { all: "全部", lane: "通道", type: "类型", tenant: "租户", key: "限流键" };
const LIMITS: Record<string, string> = {
  lane: "通道",
  resource: "资源",
  rate: "限流",
  start: "启动队列",
  mutex: "互斥键",
  workers: "工作进程",
};
const ROLES: Record<string, string> = {
  read: "只读",
  submit: "提交",
  agent: "执行端",
  operator: "操作员",
  admin: "管理员",
};
const subject = ({ scope, name }: Params) => [SCOPES[String(scope)] ?? scope, name].filter(Boolean).join(" ");
const limit = (p: Params) =>
  p.limit === "mutexes" ? `通道 ${p.name} 的互斥键` : `${LIMITS[String(p.limit)] ?? p.limit} ${p.name}`.trim();
const ahead = (p: Params) => `${limit(p)}：${p.ahead ? `前面有 ${p.ahead} 个` : "下一个就是它"}`;
const capacity = (p: Params) =>
  `${p.name}：${p.capacity} 个名额中 ${p.running} 个在运行${p.others ? `，其中 ${p.others} 个属于其他租户` : ""}`;
const tokens = (p: Params) => `${p.name}：令牌 ${p.tokens}/${p.burst}，每秒补充 ${p.rate} 个`;
const attempts = (p: Params) => `${p.host}：已尝试 ${p.attempts} 次，最近一次结果为 ${p.last}`;
const word = (state: unknown) => states.words[String(state) as State] ?? String(state);
const UNMEASURED = "近期没有类似任务完成，无法得知耗时";

export const reasons = {
  "not-started": (p) => `状态为${word(p.status)}`,
  "in-broker": (p) => `自 ${p.since} 起在消息队列 ${p.queue} 中`,
  started: (p) => `已经开始，状态为${word(p.status)}`,
  ended: (p) => `${p.status === "dead" ? "状态为" : "已结束："}${word(p.status)}`,
  "time-come": () => "时间已到",
  "start-ahead": () => "开始时间未到",
  "retry-ahead": () => "已失败，等待下次重试",
  "not-paused": () => "没有任何暂停",
  "task-paused": () => "任务已暂停",
  paused: (p) => `${spaced(subject(p))}已${p.actor ? `被 ${p.actor} ` : ""}暂停${p.reason ? `：${p.reason}` : ""}`,
  "no-limit": (p) => `${p.name}：不限，${p.running} 个在运行`,
  "has-room": capacity,
  full: capacity,
  "asked-first": (p) => `${capacity(p)}，${p.ahead} 个运行中的任务更早提出占用`,
  holds: (p) => `正占用资源 ${p.name}`,
  "waits-to-hold": (p) =>
    `等待资源 ${p.name}${p.task_id === null ? "" : `，由任务 ${p.task_id} 占用`}${
      p.running === 1 && p.task_id !== null ? "" : `（${p.capacity} 个名额中 ${p.running} 个在用）`
    }${p.ahead ? `，前面还有 ${p.ahead} 个` : ""}`,
  "mutex-free": (p) => `${p.mutex}：空闲`,
  "mutex-own": (p) => `${p.mutex}：由本任务持有`,
  "mutex-held": (p) => `${p.mutex}：由任务 ${p.task_id} 持有`,
  "mutex-ahead": (p) => `${p.mutex}：任务 ${p.task_id} 在前`,
  "has-tokens": tokens,
  "no-tokens": tokens,
  "start-free": (p) => `执行端 ${p.agent_id}：可以启动下一个`,
  "start-held": (p) => `执行端 ${p.agent_id}：每 ${p.seconds} 秒启动一个`,
  served: (p) => `${p.servers} 个工作进程或执行端可处理 ${p.type}`,
  "workers-busy": (p) =>
    `${p.worker ? `工作进程 ${p.worker}` : `${p.workers} 个工作进程`}上的 ${p.slots} 个槽位已占用 ${p.busy} 个`,
  "agents-busy": (p) =>
    p.agent
      ? `执行端 ${p.agent} 持有 ${p.busy} 个任务，上次请求任务在 ${duration(Number(p.asked_seconds))} 前`
      : `${p.agents} 个执行端持有 ${p.busy} 个任务，最近一次请求任务在 ${duration(Number(p.asked_seconds))} 前`,
  "no-worker": (p) => `没有存活的工作进程或执行端可处理 ${p.type}`,
  "agent-away": (p) => `执行端 ${p.agent_id} 不在线`,
  "children-ended": (p) => `${p.total} 个子任务中 ${p.ended} 个已结束`,
  "children-open": (p) => `${p.total} 个子任务中 ${p.ended} 个已结束，任务 ${p.task_id} 未结束`,
  "callback-due": () => "即将发送",
  "callback-failed": attempts,
  "callback-given-up": (p) => `${attempts(p)}；已放弃，等待人工重新发送`,
  "callback-rests": (p) => `${p.host} 连续失败，暂停向其发送回调；最近一次结果为 ${p.last}`,
  "callback-blocked": (p) => `${p.setting} 不允许 ${p.host}；允许后才会发送回调`,
  "callback-unsent": () => "没有进程发送回调：请运行 headgate up、headgate serve 或 headgate duties",
  "nothing-ahead": () => "没有任何阻碍",
  "slots-ahead": (p) =>
    `${ahead(p)}，同时 ${p.slots} 个${p.each_seconds ? `，每个约 ${duration(Number(p.each_seconds))}` : ""}`,
  "tokens-ahead": (p) => `${ahead(p)}，每秒 ${p.rate} 个`,
  "no-capacity": (p) => `${limit(p)}：容量为 0`,
  unmeasured: () => UNMEASURED,
  "limit-unmeasured": (p) => `${limit(p)}：${UNMEASURED}`,
  "mutex-family": (p) => `互斥键 ${p.mutex}：由任务 ${p.task_id} 持有，直到其子任务结束`,
} satisfies Record<ReasonCode, Sentence> as Record<string, Sentence>;

export const stuck: Sentence = (p) => `任务 ${p.stuck} 的处理函数在工作进程 ${p.stuck_worker} 上停不下来`;

const allowed = (said: unknown) => (said === "open" ? "未结束" : String(said).split(",").map(word).join("、"));
const near = (p: Params) => (p.near ? `；是否指 ${p.near}？` : "");
const task = (p: Params) => (p.task_id === undefined ? "任务" : `任务 ${p.task_id} `);
const verb = (action: unknown) =>
  action === "replay" ? "重放" : (acts.verbs[String(action) as keyof typeof acts.verbs] ?? String(action));

export const refusals = {
  "wrong-state": (p) => `${task(p)}的状态为${word(p.status)}；只有${allowed(p.allowed)}的任务可以${verb(p.action)}`,
  "event-not-possible": (p) => `${task(p)}的状态为${word(p.status)}，不能发生 ${p.event}`,
  "task-ended": (p) => `${task(p)}的状态为${word(p.status)}，已是最终状态`,
  "unique-key-held": (p) => (p.task_id === undefined ? "唯一键已被占用" : `唯一键已被${task(p)}占用`),
  "unique-key-busy": (p) => `唯一键 ${p.unique_key} 的归属变动过快：请重试`,
  "changed-meanwhile": (p) => `${task(p)}刚刚被他人修改：请重新查看`,
  "no-more-children": (p) => `${task(p)}不再接受子任务：已有的子任务正在取消`,
  "parent-ended": (p) => `${task(p)}已结束，不接受子任务`,
  "stale-execution": (p) => `该执行已不再拥有${task(p)}`,
  "other-agents-task": (p) => `${task(p)}不属于执行端 ${p.agent_id}`,
  "start-not-confirmed": (p) => `${task(p)}处于调度中：尚未确认开始`,
  "start-held-back": (p) => `${task(p)}现在不能开始（${p.reason}），已放回队列`,
  "cancel-not-asked": (p) => `未请求取消${task(p)}`,
  "pause-not-asked": (p) => `未请求暂停${task(p)}`,
  "worker-lost": (p) => `工作进程 ${p.worker_id} 未知或已被判定失联`,
  "already-held": (p) => `本次执行已在另一代码块中占用资源 ${p.resource}：请先退出该代码块`,
  "no-broker": () => "此服务器没有消息代理：请设置 HEADGATE_BROKER，或通过 HTTP 领取任务",
  "no-callback-owed": (p) => `${task(p)}没有待发的回调`,
  "callback-removed": (p) => `类型 ${p.type} 已没有 ${p.kind} 回调`,
  "callback-of-cancelled": (p) => `${task(p)}已取消：不会通知成功`,
  "schedule-overlaps": (p) => `定时计划 ${p.schedule_id} 不允许重叠：${p.busy}`,
  "type-just-edited": (p) => `任务类型 ${p.type} 刚刚被修改：请重试`,
  "lane-in-use": (p) => `通道 ${p.lane} 有${p.more ? "超过 " : " "}${p.open} 个未结束的任务：请等待其结束或取消`,
  "resource-in-use": (p) => `资源 ${p.resource} 被任务类型 ${p.types} 使用：请先修改该类型`,
  "resource-held": (p) => `资源 ${p.resource} 正被${task(p)}占用或等待：请等待其结束或取消`,
  "too-many-streams": (p) =>
    `租户 ${p.tenant_id} 的通道、类型、类别、限流键与执行端的组合已达上限 ${p.most}：请减少通道和限流键`,
  "too-many-resources": (p) => `租户 ${p.tenant_id} 的处理函数命名的资源已达上限 ${p.most}：请减少资源`,
  "server-without-keys": () => "此服务器没有密钥：无需登录",
  "session-not-a-key": () => "会话不能再换会话：请用密钥登录",
  "no-task": (p) => (p.task_id === undefined ? "没有这个任务" : `没有任务 ${p.task_id}`),
  "no-parent": (p) => `没有可作父任务的任务 ${p.task_id}`,
  "task-purged": (p) => `此幂等键创建的${task(p)}已被清除`,
  "no-callback": (p) => `${task(p)}没有回调 ${p.callback_id}`,
  "no-type": (p) => `没有任务类型 ${p.type}`,
  "no-lane": (p) => `没有通道 ${p.lane}${p.known ? `；已有通道：${p.known}` : ""}`,
  "no-resource": (p) => `没有资源 ${p.resource}`,
  "no-rate-limit": (p) => `没有限流 ${p.rate_limit}`,
  "no-schedule": (p) => `没有定时计划 ${p.schedule_id}`,
  "no-key": (p) => `没有密钥 ${p.key_id}`,
  "no-listener": (p) => `没有监听器 ${p.listener}`,
  "no-such-address": () => "此地址没有内容",
  "role-needed": (p) => `需要角色：${ROLES[String(p.role)] ?? p.role}`,
  "other-tenant": () => "此密钥属于其他租户",
  "shared-by-tenants": () => "此项由所有租户共用：请使用不限租户的密钥",
  "unknown-type": (p) => `没有任务类型 ${p.type}${near(p)}`,
  "key-reused": (p) => `幂等键 ${p.key} 已用于另一个请求`,
  "field-empty": (p) => `${p.field} 为空`,
  "field-too-long": (p) => `${p.field} 超过 ${p.most} 个字符`,
  "field-not-text": (p) => `${p.field} 必须是文本`,
  "field-not-integer": (p) => `${p.field} 必须是整数`,
  "field-not-seconds": (p) => `${p.field} 必须是秒数`,
  "field-out-of-range": (p) => `${p.field} 超出范围`,
  "field-not-json": (p) => `${p.field} 不是 JSON：${p.error}`,
  "field-too-large": (p) => `${p.field} 长 ${p.size} 字节，最多 ${p.most}`,
  "field-too-deep": (p) => `${p.field} 嵌套超过 ${p.most} 层`,
  "time-zone-needed": (p) => `${p.field} 需要时区`,
  "remark-needed": () => "需要填写备注",
  "bad-capacity": (p) => `容量是 0 到 ${p.most} 的整数`,
  "bad-rate": (p) => `速率须大于 0 且不超过 ${p.most}，突发量至少为 1`,
  "rate-limit-name": () => "限流的名称形如 lane:NAME、type:CODE 或 key:NAME",
  "pause-scope": () => "暂停对象为 all、lane:NAME、type:CODE、tenant:ID 或 key:NAME",
  "pause-end-past": () => "暂停的结束时间必须在将来",
  "bad-cron": (p) => `${p.expression} 不是 cron 表达式：${p.error}`,
  "cron-never-fires": (p) => `${p.expression} 永远不会触发：没有这样的日期`,
  "unknown-time-zone": (p) => `没有时区 ${p.zone}${near(p)}`,
} satisfies Record<RefusalCode, Sentence> as Record<string, Sentence>;

export const problems: Texts["problems"] = {
  error: "出了问题",
  refused: "现在无法执行",
  "stale-execution": "现在无法执行",
  paused: "现在无法执行",
  "worker-lost": "现在无法执行",
  "not-found": "未找到",
  invalid: "输入无效",
  "unknown-type": "输入无效",
  "bad-arguments": "输入无效",
  "key-reused": "输入无效",
  unavailable: "暂时不可用",
  "store-full": "存储的磁盘已满",
  busy: "存储繁忙",
  "bad-request": "无法读取请求",
  unauthorized: "需要密钥",
  forbidden: "你的密钥没有此权限",
  "method-not-allowed": "无法读取请求",
  "too-large": "内容过大",
  "unsupported-media-type": "无法读取请求",
  "too-many-requests": "请求过多",
  "headers-too-large": "内容过大",
  "too-slow": "请求过慢",
};

export const ends = {
  error: "执行失败",
  exhausted: "重试次数已用完",
  fatal: "此类错误从不重试",
  unknown: "未知错误，该类型不重试",
  arguments: "参数与处理函数不符",
  overdue: "运行超时",
  memory: "内存超限",
  lost: "执行者失联",
  poison: "执行者多次失联",
  children: "没有子任务成功",
  cancelled: "已取消",
  discarded: "已被人工丢弃",
} satisfies Record<SchemaEndReason, string> as Record<string, string>;

export const eventDetails: Texts["eventDetails"] = {
  again: (seconds: number) => (seconds > 0 ? `${duration(seconds)} 后重试` : "立即重试"),
  until: (time: string) => `直到 ${time}`,
  children: (counts: string) => `子任务：${counts}`,
  replaces: (value: string) => `替换 ${value}`,
  progress: (done: unknown, total: unknown) => `${done} / ${total}`,
  staleExecution: "其 exec_id 已不再拥有此任务",
  unset: "（无）",
  everything: "全部",
  names: {
    lane: "通道",
    type: "类型",
    tenant: "租户",
    key: "键",
    resource: "资源",
    name: "名称",
    worker: "工作进程",
    listener: "监听器",
    task: "任务",
    copy: "副本",
    capacity: "容量",
    limit: "限制",
    role: "角色",
    tenant_id: "租户",
    periodic_task: "定时计划",
    status: "状态",
    declared_by: "声明者",
    cron_expressions: "cron",
    timezone: "时区",
    missed: "错过的触发",
    overlap: "重叠",
    log: "日志",
    next_tick: "下次触发",
    priority: "优先级",
    start_time: "开始时间",
    removed: "已清除",
    callback_kind: "回调",
    callback: "回调",
    host: "接收方",
    attempts: "尝试次数",
    last: "最近结果",
    purged: "已清除",
  },
};
