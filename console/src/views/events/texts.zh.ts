import type { Texts } from "@/texts";

export const events: Texts["events"] = {
  title: "事件",
  about: "正在发生的一切",
  filter: "种类、类型、通道、操作者或详情包含",
  hold: "暂停滚动",
  goOn: "继续",
  held: (count: number) => `之后又有 ${count} 条`,
  leftOut: (count: number) => `同时还发生了 ${count} 条`,
  none: "还没有事件",
  noneAbout: "任务的每次状态变化，以及对通道、限流、类型或密钥的每次操作，提交后会立即出现在这里。",
  noneMatch: "没有匹配的事件",
  columns: { at: "时间", kind: "事件", task: "任务", change: "状态", who: "操作者", detail: "详情" },
  acts: {
    paused: "已暂停",
    resumed: "已恢复",
    capacity_changed: "容量已改",
    rate_changed: "限流已改",
    type_changed: "类型已改",
    type_removed: "类型已删除",
    key_created: "密钥已创建",
    key_revoked: "密钥已吊销",
    signed_in: "登录",
    signed_out: "退出登录",
    purged: "已清理旧任务",
  },
};
