"""Why something is refused: a stable code with its values, and its English text, as in `core/reasons.py`.

An error that has no code of its own here has that of its class (`core/errors.py`), and its text is all there is.
"""

from collections.abc import Callable, Mapping

from headgate.core.reasons import Params


def refusal_text(code: str, params: Params) -> str:
    """A refusal in English."""
    text = TEXTS[code]
    return text.format_map(params) if isinstance(text, str) else text(params)


_PARTICIPLES = {
    "cancel": "cancelled", "pause": "paused", "resume": "resumed", "retry": "retried", "resolve": "resolved",
    "discard": "discarded", "prioritize": "prioritized", "reschedule": "rescheduled", "replay": "replayed",
}  # fmt: skip


def _wrong_state(params: Params) -> str:
    states = str(params["allowed"]).split(",")
    allowed = " or ".join([", ".join(states[:-1]), states[-1]] if len(states) > 1 else states)
    return "task {task_id} is {status}; only {0} tasks can be {1}".format(
        allowed, _PARTICIPLES[str(params["action"])], **params
    )


def _unknown_type(params: Params) -> str:
    near = "; did you mean {near}?".format_map(params) if params["near"] else ""
    return "no task type {type!r}".format_map(params) + near


def _unknown_zone(params: Params) -> str:
    near = "; did you mean {near!r}?".format_map(params) if params["near"] else ""
    return "no time zone {zone!r}".format_map(params) + near


def _lane_in_use(params: Params) -> str:
    if params["open"] == 1:
        return "lane {lane} has 1 open task: wait for it to end, or cancel it".format_map(params)
    number = "more than {open}" if params["more"] else "{open}"
    return ("lane {lane} has " + number + " open tasks: wait for them to end, or cancel them").format_map(params)


def _no_lane(params: Params) -> str:
    known = "; known lanes: {known}".format_map(params) if params["known"] else ""
    return "no lane {lane}".format_map(params) + known


def _stale(params: Params) -> str:
    text = "exec_id {exec_id} does not own task {task_id}".format_map(params)
    return text + " ({status}): {reason}".format_map(params) if params["status"] else text


TEXTS: Mapping[str, str | Callable[[Params], str]] = {
    # tasks: 409
    "wrong-state": _wrong_state,  # `allowed`: states, with commas between them
    "event-not-possible": "{event} cannot happen to task {task_id}, which is {status}",
    "task-ended": "task {task_id} is {status}, which is final",
    "unique-key-held": "unique key is held by task {task_id}",
    "unique-key-busy": "the unique key {unique_key!r} keeps changing owner: try again",
    "changed-meanwhile": "task {task_id} was just changed by someone else: read it again",
    "no-more-children": "task {task_id} accepts no more children: its children are being cancelled",
    "parent-ended": "task {task_id} has ended and accepts no children",
    # executions: 409
    "stale-execution": _stale,  # `status` and `reason` are null where they were not read
    "other-agents-task": "task {task_id} is not assigned to agent {agent_id}",
    "start-not-confirmed": "task {task_id} is scheduling: its start has not been confirmed",
    "start-held-back": "task {task_id} cannot start now ({reason}) and is back in the queue",
    "cancel-not-asked": "no cancellation of task {task_id} was requested",
    "pause-not-asked": "no pause of task {task_id} was requested",
    "worker-lost": "worker {worker_id} is unknown or was declared lost",
    "already-held": "resource {resource} is held by this execution in another block: leave that one first",
    "no-broker": "this server has no broker: set HEADGATE_BROKER, or claim tasks over HTTP",
    # callbacks: 409
    "no-callback-owed": "task {task_id} has no callback to send",
    "callback-removed": "type {type} has no {kind} callback any more",
    "callback-of-cancelled": "task {task_id} is cancelled, so no success callback is sent",
    # schedules and types: 409
    "schedule-overlaps": "schedule {schedule_id} does not allow overlap: {busy}",
    "type-just-edited": "task type {type} was just edited: try again",
    # limits: 409
    "lane-in-use": _lane_in_use,
    "resource-in-use": "resource {resource} is used by task type {types}: change `uses` there first",
    "resource-held": "resource {resource} is held or waited for by task {task_id}: wait for it to end, or cancel it",
    "too-many-streams": "tenant {tenant_id} has {most} combinations of lane, type, category, rate key and agent, the "
    "maximum: use fewer lanes and rate keys; unused ones are removed an hour after history has forgotten their tasks",
    "too-many-resources": "handlers of tenant {tenant_id} have named {most} resources, the maximum: use fewer; unused "
    "ones are removed after an hour",
    # sessions: 409
    "server-without-keys": "this server has no keys: there is nothing to sign in with",
    "session-not-a-key": "a session cannot create another session: sign in with a key",
    # 404
    "no-task": "no task {task_id}",
    "no-parent": "no parent task {task_id}",
    "task-purged": "task {task_id}, created with this idempotency key, has been purged",
    "no-callback": "no callback {callback_id} of task {task_id}",
    "no-type": "no task type {type}",
    "no-lane": _no_lane,
    "no-resource": "no resource {resource}",
    "no-rate-limit": "no rate limit {rate_limit}",
    "no-schedule": "no schedule {schedule_id}",
    "no-key": "no key {key_id}",
    "no-listener": "no listener {listener}",
    "no-such-address": "there is nothing at this address",
    # 403
    "role-needed": "this needs the role {role}",
    "other-tenant": "the key belongs to another tenant",
    "shared-by-tenants": "all tenants share this: use a key without a tenant",
    # 422: what a task asks for
    "unknown-type": _unknown_type,
    "key-reused": "the idempotency key {key!r} was used for another request",
    "field-empty": "{field} is empty",
    "field-too-long": "{field} is longer than {most} characters",
    "field-not-text": "{field} must be text",
    "field-not-integer": "{field} must be a whole number",
    "field-not-seconds": "{field} must be a number of seconds",
    "field-out-of-range": "{field} is out of range",
    "field-not-json": "{field} is not JSON: {error}",
    "field-too-large": "{field} is {size} bytes long; the maximum is {most}",
    "field-too-deep": "{field} is nested more than {most} levels deep",
    "time-zone-needed": "{field} needs a time zone",
    "remark-needed": "resolve needs a remark",
    # 422: limits, pauses and schedules
    "bad-capacity": "a capacity must be a whole number from 0 to {most}",
    "bad-rate": "a rate limit needs a rate above 0, at most {most:g}, and a burst of at least 1",
    "rate-limit-name": "a rate limit is named lane:NAME, type:CODE or key:NAME",
    "pause-scope": "name what to pause: all, lane:NAME, type:CODE, tenant:ID or key:NAME",
    "pause-end-past": "the end of a pause must be in the future",
    "bad-cron": "{expression!r} is not a cron expression: {error}",
    "cron-never-fires": "{expression!r} never fires: there is no such day",
    "unknown-time-zone": _unknown_zone,
}
