"""Codes of reasons, refusals and events: what programs and other languages go by."""

import inspect
import re
from dataclasses import replace
from string import Formatter

import pytest

from headgate.api.problems import CODES
from headgate.core import errors
from headgate.core.end_reasons import EndReason
from headgate.core.errors import HeadgateError, Refused
from headgate.core.event_texts import REASON_TEXTS, event_code, event_params, event_text
from headgate.core.events import ACT_KINDS, SYSTEM_KINDS, TASK_KINDS, AuditEvent
from headgate.core.machine import ACTIONS, decide
from headgate.core.reasons import TEXTS as REASONS
from headgate.core.refusals import TEXTS as REFUSALS
from headgate.core.states import FINAL, State
from headgate.core.task import TaskType
from tests.core.factories import NOW, a_task

# A code keeps its meaning for ever: nothing is ever taken out of this list, and what is new is added to it.
FROZEN_REFUSALS = """
    wrong-state event-not-possible task-ended unique-key-held unique-key-busy changed-meanwhile no-more-children
    parent-ended stale-execution other-agents-task start-not-confirmed start-held-back cancel-not-asked pause-not-asked
    worker-lost no-broker no-callback-owed callback-removed callback-of-cancelled schedule-overlaps type-just-edited
    lane-in-use resource-in-use already-held resource-held too-many-streams too-many-resources
    server-without-keys session-not-a-key no-task no-parent task-purged no-callback no-type no-lane no-resource
    no-rate-limit no-schedule no-key no-listener no-such-address role-needed other-tenant shared-by-tenants unknown-type
    key-reused field-empty field-too-long field-not-text field-not-integer field-not-seconds field-out-of-range
    field-not-json field-too-large field-too-deep time-zone-needed remark-needed bad-capacity bad-rate rate-limit-name
    pause-scope pause-end-past bad-cron cron-never-fires unknown-time-zone
"""
FROZEN_REASONS = """
    not-started started ended time-come start-ahead retry-ahead not-paused task-paused paused no-limit has-room full
    mutex-free mutex-own mutex-held mutex-ahead has-tokens no-tokens start-free start-held served workers-busy no-worker
    agent-away children-ended children-open callback-due callback-failed in-broker agents-busy
    callback-rests callback-blocked callback-unsent callback-given-up nothing-ahead slots-ahead tokens-ahead
    no-capacity unmeasured limit-unmeasured mutex-family asked-first holds waits-to-hold
"""
FROZEN_ENDS = "error exhausted fatal unknown arguments overdue memory lost poison children cancelled discarded"
FROZEN_CLASSES = """
    error refused stale-execution paused worker-lost not-found invalid unknown-type bad-arguments key-reused unavailable
    store-full busy deadlock
"""
FROZEN_HTTP = """
    bad-request unauthorized forbidden not-found method-not-allowed refused too-large unsupported-media-type invalid
    too-many-requests headers-too-large too-slow unavailable
"""
FROZEN_TASK_KINDS = """
    submitted due came_forward sent_back scheduled started progress completed completed_with_errors waiting retrying
    failed dead_lettered giving_up snoozed given_back compensated lease_lost overdue cancel_requested cancelled
    pause_requested paused resumed prioritized rescheduled debounced retried resolved discarded edited adopted notified
    undeliverable redelivery_asked refused
"""
FROZEN_SYSTEM_KINDS = """
    paused resumed capacity_changed rate_changed limit_reset lane_removed resource_removed rate_limit_removed
    weight_changed type_changed type_removed periodic_added periodic_changed
    periodic_removed periodic_online periodic_offline periodic_triggered ticks_missed copied signed_in signed_out
    key_created key_revoked listener_removed worker_lost compensation_triggered purged retention
"""


@pytest.mark.parametrize(
    ("frozen", "codes"),
    [
        (FROZEN_REFUSALS, REFUSALS),
        (FROZEN_REASONS, REASONS),
        (FROZEN_ENDS, list(EndReason)),
        (FROZEN_HTTP, CODES.values()),
        (FROZEN_TASK_KINDS, TASK_KINDS),
        (FROZEN_SYSTEM_KINDS, SYSTEM_KINDS),
    ],
    ids=["refusals", "reasons", "ends", "http", "task events", "system events"],
)
def test_a_code_that_was_given_once_is_never_taken_back(frozen, codes):
    assert sorted(frozen.split()) == sorted(set(codes))


def test_each_class_of_errors_keeps_its_code():
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, HeadgateError)]
    assert {each.code for each in classes} == set(FROZEN_CLASSES.split())


def test_codes_are_words_with_dashes():
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", code) for code in (*REFUSALS, *REASONS, *CODES.values()))


def test_every_reason_of_an_end_has_a_text():
    assert set(REASON_TEXTS) == set(EndReason)


def test_acts_are_kinds_of_events():
    assert set(ACT_KINDS) <= TASK_KINDS


def test_an_error_says_its_code_its_values_and_the_text_made_of_them():
    error = Refused.of("unique-key-held", task_id=7)
    assert (error.code, error.params, str(error)) == (
        "unique-key-held", {"task_id": 7}, "unique key is held by task 7"
    )  # fmt: skip
    assert (error.kind, Refused("no more is known").code) == ("refused", "refused")


@pytest.mark.parametrize("code", [code for code, text in REFUSALS.items() if isinstance(text, str)])
def test_a_refusals_text_names_what_it_is_about(code):
    values = {name: 1 for _, name, _, _ in Formatter().parse(str(REFUSALS[code])) if name}
    assert "{" not in str(Refused.of(code, **values))


@pytest.mark.parametrize("event", ACTIONS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("status", State)
def test_a_refused_action_names_the_states_in_which_it_is_possible(event, status):
    action, allowed = ACTIONS[event]
    states = [state for state in State if state not in FINAL] if allowed == "open" else allowed.split(",")
    asked = _instance(event)
    if status in states:
        decide(a_task(status), asked, TaskType("plain"))
        return
    with pytest.raises(Refused) as refused:
        decide(a_task(status), asked, TaskType("plain"))
    assert refused.value.code == "wrong-state"
    assert refused.value.params == {"task_id": 1, "status": status, "action": action, "allowed": allowed}


def _instance(event):
    values = {"priority": 1, "remark": "done", "delay": 0.0}
    return event(**{name: value for name, value in values.items() if name in event.__dataclass_fields__})


EVENT = AuditEvent(1, 5, 0, 3, NOW, "failed", "running", "failed", "worker:1", None, None, None)


@pytest.mark.parametrize(
    ("kind", "detail", "code", "text"),
    [
        ("submitted", None, "submitted", None),
        (
            "retrying", '{"reason": "error", "error": "OSError: gone", "delay": 60.0}',
            "error", "it failed; OSError: gone; runs again in 60 s",
        ),
        (
            "failed", '{"reason": "fatal", "error": "ValueError: no"}',
            "fatal", "it failed with an error that is never retried; ValueError: no",
        ),
        (
            "prioritized", '{"changes": {"priority": {"old": 5, "new": 1}}, "address": "10.0.0.1"}',
            "prioritized", "priority 5 → 1",
        ),
        (
            "retried", '{"edit": {"ext.page": {"old": 3}, "priority": {"old": 5, "new": 1}}}',
            "retried", "ext.page 3 → (none), priority 5 → 1",
        ),
        ("resolved", '{"remark": "paid by hand"}', "resolved", "paid by hand"),
        ("refused", '{"refusal": "stale-execution"}', "stale-execution", "its exec_id does not own the task"),
        ("refused", "stale exec_id", "refused", "stale exec_id"),
        ("progress", '{"done": 2, "total": 3, "note": "cut"}', "progress", "2 of 3: cut"),
        ("progress", '{"done": 3, "total": 3, "failed": 1}', "progress", "3 of 3, 1 failed"),
        ("progress", '{"frames": [1, 2]}', "progress", '{"frames": [1, 2]}'),
        ("debounced", '{"reason": "fatal"}', "debounced", 'replaces {"reason": "fatal"}'),
        ("completed", '{"children": {"succeeded": 2}}', "completed", "children: 2 succeeded"),
    ],
)  # fmt: skip
def test_an_event_says_what_it_says_as_a_code_and_as_a_sentence(kind, detail, code, text):
    event = replace(EVENT, kind=kind, detail=detail)
    assert (event_code(event), event_text(event)) == (code, text)


def test_a_pause_says_what_it_holds_why_and_until_when():
    detail = '{"lane": "mail", "reason": "the provider is down", "until": "2026-03-01T12:00:00+00:00"}'
    event = replace(EVENT, task_id=None, kind="paused", detail=detail)
    assert event_code(event) == "paused"
    assert event_text(event) == "lane mail; the provider is down; until 2026-03-01 12:00:00 UTC"
    assert event_params(event)["lane"] == "mail"
