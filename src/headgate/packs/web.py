"""The public door for a pack's routes. It loads the web framework: only servers import it."""

from headgate.api.door.principal import Principal, Role
from headgate.api.live.stream import EventStream, FromCursor, LastEventId, LiveEvent, event_stream, live_event
from headgate.api.live.waiting import Wait, count_as, wait_for_end
from headgate.api.problems import Rejected
from headgate.api.queue import QueueStats, queue_stats
from headgate.api.routing import Cookie, Header, Json, Routes
from headgate.api.server import Server
from headgate.api.shapes import INT64, Cursor, Integer, Limit, Name, Nothing, Priority, Reason, copied, text_of
from headgate.api.submits import Key, SubmitResult
from headgate.events.live import FeedEvent
from headgate.events.task_infos import TaskInfo

__all__ = [
    "INT64",
    "Cookie",
    "Cursor",
    "EventStream",
    "FeedEvent",
    "FromCursor",
    "Header",
    "Integer",
    "Json",
    "Key",
    "LastEventId",
    "Limit",
    "LiveEvent",
    "Name",
    "Nothing",
    "Principal",
    "Priority",
    "QueueStats",
    "Reason",
    "Rejected",
    "Role",
    "Routes",
    "Server",
    "SubmitResult",
    "TaskInfo",
    "Wait",
    "copied",
    "count_as",
    "event_stream",
    "live_event",
    "queue_stats",
    "text_of",
    "wait_for_end",
]
