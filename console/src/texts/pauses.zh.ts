import type { Scope } from "@/services/pauses";
import type { Texts } from "./en";

const SCOPES = { all: "全部任务", lane: "通道", type: "类型", tenant: "租户", key: "限流键" };

/** 拉丁字母或数字之后空一格。 */
export const spaced = (text: string) => (/[\x21-\x7e]$/.test(text) ? `${text} ` : text);

export const pauses: Texts["pauses"] = {
  title: "暂停",
  subject: (scope: Scope, name: string) => (name ? `${SCOPES[scope]} ${name}` : SCOPES[scope]),
  pause: (subject: string) => `暂停${subject}`,
  resume: (subject: string) => `恢复${subject}`,
  faces: { pause: "暂停", resume: "恢复" },
  isPaused: (subject: string) => `${spaced(subject)}已暂停`,
  isResumed: (subject: string) => `${spaced(subject)}已恢复`,
  about: (subject: string) => `${spaced(subject)}不会再开始新任务。正在运行的任务会继续运行。`,
  paused: "暂停于",
  pausedBy: (actor: string) => `由 ${actor} 暂停于`,
  ends: "结束：",
  reason: "原因",
  reasonAbout: "凡是因此暂停而等待的地方都会显示。",
  until: "持续到",
  untilResumed: "有人恢复为止",
  forHours: (hours: number) => (hours < 1 ? `${hours * 60} 分钟后` : `${hours} 小时后`),
  untilTime: "指定时间",
  endsAt: "结束时间",
  endPast: "结束时间必须在将来。",
  new: "暂停…",
  unnamed: "暂停",
  newAbout: "所选对象不会再开始新任务。正在运行的任务会继续运行。",
  what: "对象",
  whats: { all: "全部任务", lane: "通道", type: "任务类型", tenant: "租户", key: "限流键" },
  name: "名称",
  tenantNumber: "租户编号",
  none: "没有任何暂停。",
  columns: { what: "对象", why: "原因", by: "操作者", since: "开始", until: "结束" },
  noEnd: "无",
};
