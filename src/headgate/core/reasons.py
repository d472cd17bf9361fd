"""Why a gate is open or closed, and what decides a forecast: a stable code with its values, and its English text.

A code never changes its meaning and keeps its values; programs that show reasons in another language use the code.
"""

from collections.abc import Callable, Mapping

Param = str | int | float | None
Params = Mapping[str, Param]


def text_of(code: str, params: Params) -> str:
    """A reason in English. Any reason of a closed gate may have the values of `STUCK` besides its own."""
    text = TEXTS[code]
    reason = text.format_map(params) if isinstance(text, str) else text(params)
    return f"{reason}; {STUCK.format_map(params)}" if "stuck" in params else reason


def duration_text(seconds: float) -> str:
    """A length of time to two digits: `0.25 s`, `40 s`, `12 min`, `3.5 h`."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}" if seconds < 100 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds:.0f} s"


_SCOPES = {
    "all": "everything", "lane": "lane {name}", "type": "type {name}", "tenant": "tenant {name}",
    "key": "rate key {name}",
}  # fmt: skip


def _capacity(params: Params) -> str:
    others = f", {params['others']} of other tenants" if params["others"] else ""
    return "{name}: {running} of {capacity} running".format_map(params) + others


def _asked_first(params: Params) -> str:
    tasks = "1 running task" if params["ahead"] == 1 else "{ahead} running tasks".format_map(params)
    return f"{_capacity(params)}, {tasks} asked for it first"


def _waits_to_hold(params: Params) -> str:
    text = "waits for resource {name}".format_map(params)
    if params["task_id"] is not None:
        text += ", held by task {task_id}".format_map(params)
    if params["running"] != 1 or params["task_id"] is None:
        text += " ({running} of {capacity} in use)".format_map(params)
    return text + (", {ahead} ahead of it".format_map(params) if params["ahead"] else "")


def paused_subject(params: Params) -> str:
    """What a pause holds."""
    return _SCOPES[str(params["scope"])].format_map(params)


def _paused(params: Params) -> str:
    actor = " by {actor}".format_map(params) if params["actor"] else ""
    reason = ": {reason}".format_map(params) if params["reason"] else ""
    return f"{paused_subject(params)} is paused{actor}{reason}"


def _callback(params: Params) -> str:
    attempts = "1 attempt" if params["attempts"] == 1 else "{attempts} attempts".format_map(params)
    return "{host}: {0}, last result: {last}".format(attempts, **params)


def _served(params: Params) -> str:
    servers = "1 worker or agent" if params["servers"] == 1 else "{servers} workers or agents"
    return (servers + " for {type}").format_map(params)


def _busy(params: Params) -> str:
    where = "worker {worker}" if params["worker"] else "{workers} workers"
    others = {0: "", 1: ", 1 agent is not asking for work"}
    agents = others.get(int(params["agents"] or 0), ", {agents} agents are not asking for work")
    return ("{busy} of {slots} slots busy on " + where + agents).format_map(params)


def _agents_busy(params: Params) -> str:
    ago = duration_text(float(params["asked_seconds"] or 0.0))
    tasks = "1 task" if params["busy"] == 1 else "{busy} tasks".format_map(params)
    if params["agent"]:
        return "agent {agent} holds {0} and last asked for work {1} ago".format(tasks, ago, **params)
    return "{agents} agents hold {0}; the latest request for work was {1} ago".format(tasks, ago, **params)


def _limit(params: Params) -> str:
    if params["limit"] == "mutexes":
        return "mutexes of lane {name}".format_map(params)
    return "{limit} {name}".format_map(params).rstrip()


def _ahead(params: Params) -> str:
    return f"{_limit(params)}: " + ("{ahead} ahead".format_map(params) if params["ahead"] else "next in line")


def _slots(params: Params) -> str:
    each = params["each_seconds"]
    took = f", about {duration_text(float(each))} each" if each else ""
    return f"{_ahead(params)}, {params['slots']} at a time{took}"


def _ended(params: Params) -> str:
    return ("it is {status}" if params["status"] == "dead" else "it has ended: {status}").format_map(params)


_UNMEASURED = "no similar task has finished lately, so its duration is unknown"
_TOKENS = "{name}: {tokens} of {burst} tokens, {rate:g} a second"

STUCK = "the handler of task {stuck} does not stop on worker {stuck_worker}"
TEXTS: Mapping[str, str | Callable[[Params], str]] = {
    # state
    "not-started": "it is {status}",
    "started": "it has started and is {status}",
    "ended": _ended,
    "in-broker": "in the broker queue {queue} since {since}",
    # time
    "time-come": "the start time has passed",
    "start-ahead": "the start time has not come yet",
    "retry-ahead": "failed, waiting for the next retry",
    # pause
    "not-paused": "nothing is paused",
    "task-paused": "the task is paused",
    "paused": _paused,
    # lane, resource
    "no-limit": "{name}: no limit, {running} running",
    "has-room": _capacity,
    "full": _capacity,
    "asked-first": _asked_first,
    # hold: what a running handler takes for a part of its run
    "holds": "holds resource {name}",
    "waits-to-hold": _waits_to_hold,
    # mutex
    "mutex-free": "{mutex}: free",
    "mutex-own": "{mutex}: held by this task",
    "mutex-held": "{mutex}: held by task {task_id}",
    "mutex-ahead": "{mutex}: task {task_id} goes first",
    # rate
    "has-tokens": _TOKENS,
    "no-tokens": _TOKENS,
    # start: the start queue of an agent
    "start-free": "agent {agent_id}: can start the next task",
    "start-held": "agent {agent_id}: one start every {seconds:g} s",
    # worker
    "served": _served,
    "workers-busy": _busy,
    "agents-busy": _agents_busy,
    "no-worker": "no worker or agent for {type} is running",
    "agent-away": "agent {agent_id} is not connected",
    # children
    "children-ended": "{ended} of {total} have ended",
    "children-open": "{ended} of {total} have ended, task {task_id} has not",
    # callback
    "callback-due": "it is about to be sent",
    "callback-failed": _callback,
    "callback-rests": "{host} keeps failing, so callbacks to it are on hold; last result: {last}",
    "callback-blocked": "{setting} does not allow {host}; the callback is sent once it does",
    "callback-unsent": "no process sends callbacks: run `headgate up`, `headgate serve` or `headgate duties`",
    "callback-given-up": lambda params: f"{_callback(params)}; given up until someone sends it again",
    # forecasts, besides the gates' own
    "nothing-ahead": "nothing is in the way",
    "slots-ahead": _slots,
    "tokens-ahead": lambda params: f"{_ahead(params)}, {params['rate']:g} a second",
    "no-capacity": lambda params: f"{_limit(params)}: its capacity is 0",
    "unmeasured": _UNMEASURED,
    "limit-unmeasured": lambda params: f"{_limit(params)}: {_UNMEASURED}",
    "mutex-family": "mutex {mutex}: held by task {task_id} until its children have ended",
}
