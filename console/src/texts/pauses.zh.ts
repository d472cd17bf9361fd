import type { Scope } from "@/services/pauses";
import type { Texts } from "./en";

const SCOPES = { all: "全部任务", lane: "通道", type: "类型", tenant: "租户", key: "限流键" };

export const pauses: Texts["pauses"] = {
  title: "暂停",
  subject: (scope: Scope, name: string) => (name ? `${SCOPES[scope]} ${name}` : SCOPES[scope]),
  pause: (subject: string) => `暂停${subject}`,
  resume: (subject: string) => `恢复${subject}`,
  isPaused: (subject: string) => `${subject}已暂停`,
  isResumed: (subject: string) => `${subject}已恢复`,
  about: (subject: string) => `${subject}不会再开始新任务。正在运行的任务会继续运行。`,
  paused: "已暂停",
  pausedBy: (actor: string) => `由 ${actor} 暂停`,
  ends: "结束于",
  reason: "原因",
  reasonAbout: "凡是因此暂停而等待的地方都会显示。",
  until: "持续到",
  untilResumed: "有人恢复为止",
  forHours: (hours: number) => (hours < 1 ? `${hours * 60} 分钟后` : `${hours} 小时后`),
  untilTime: "指定时间",
  endsAt: "结束时间",
  endPast: "结束时间必须在将来。",
  new: "暂停…",
  newAbout: "所选对象不会再开始新任务。正在运行的任务会继续运行。",
  what: "对象",
  whats: { all: "全部任务", lane: "通道", type: "任务类型", tenant: "租户", key: "限流键" },
  name: "名称",
  tenantNumber: "租户编号",
  none: "没有任何暂停。",
  columns: { what: "对象", why: "原因", by: "操作者", since: "开始", until: "结束" },
  noEnd: "恢复时",
};
