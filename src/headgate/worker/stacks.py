"""Where a handler is right now, for people to read."""

import asyncio
import sys
import traceback
from typing import Any

_MOST_FRAMES = 30


def thread_stack(thread_id: int) -> str:
    """The innermost calls of a thread."""
    frame = sys._current_frames().get(thread_id)
    return "" if frame is None else "".join(traceback.format_stack(frame)[-_MOST_FRAMES:]).rstrip()


def coroutine_stack(task: "asyncio.Task[object]") -> str:
    """What a suspended task awaits, from outside to inside."""
    frames: list[traceback.FrameSummary] = []
    awaited: Any = task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None and len(frames) < _MOST_FRAMES:
        frames.append(traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        awaited = getattr(awaited, "cr_await", None)
    return "".join(traceback.format_list(frames)).rstrip()
