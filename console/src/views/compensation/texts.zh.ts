import type { Texts } from "@/texts";

export const compensation: Texts["compensation"] = {
  title: "启动补偿",
  about: "查找执行端从未确认的启动",
  trigger: "立即查找",
  found: (count: number) => (count === 0 ? "没有丢失的启动" : `找到 ${count} 个丢失的启动`),
  next: "下次轮询",
  due: "现在",
  left: (seconds: number) => (seconds < 100 ? `${seconds} 秒` : `${Math.floor(seconds / 60)} 分 ${seconds % 60} 秒`),
  never: "无人轮询",
  neverAbout: "由承担后台职责的进程轮询：headgate up、serve 或 duties。",
  last: "上次轮询",
  lastNone: "尚未轮询过。",
  queue: "启动队列中",
  queueMany: "10,000 以上",
  queueAbout: "已指派、等待交给执行端的任务。",
  interval: "间隔",
  multiplier: (times: number) =>
    times === 1 ? "倍数 1：基础间隔，每次有发现后都回到这里。" : `倍数 ${times}：一直没有丢失，间隔已拉长。`,
  skips: "连续跳过",
  skipsNone: "没有推迟过轮询。",
  skipsAbout: "因启动队列中有任务而推迟：它们只是晚到，并未丢失。",
  how: "工作原理",
  steps: (threshold: string, pace: string) => [
    `指派给执行端的任务在该执行端的启动队列中等待，每 ${pace} 交出一个。`,
    `交出后处于“调度中”，直到执行端确认启动。超过 ${threshold} 未确认，即视为启动丢失。`,
    "轮询找到丢失的启动，把它们重新放入启动队列；之前那次交付从此作废。",
    "没有发现时间隔变长；一旦有发现，间隔回到基础值。",
    "启动队列中有任务时跳过轮询，但只能连续跳过几次。",
  ],
};
