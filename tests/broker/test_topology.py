"""What messages say, and what is declared for them."""

import json
from datetime import timedelta
from typing import Any

import pytest

from headgate.broker.address import place_of
from headgate.broker.topology import DEAD_QUEUE, TASK_QUEUE, dead_message, delivered_task, event_message, task_message
from headgate.core.events import AuditEvent
from headgate.core.states import State
from headgate.core.task import Execution
from tests.factories import START

EXEC_ID = "0f7e1d3a-0000-4000-8000-000000000001"


def execution(**fields):
    values: dict[str, Any] = {
        "id": 7, "priority": 5, "mutex": None, "ext": '{"password": "no"}', "error_count": 2, "lost_count": 0,
        "max_error_count": None, "creator": 42, "parent_id": None, "root_id": None, "correlation_id": "order-1",
        "name": None, "tenant_id": 3, "type": "mail", "lane": "slow", "category": "", "exec_id": EXEC_ID, "attempt": 4,
        "executing_deadline": START, "timeout_seconds": 60.0, "status": State.SCHEDULING,
    }  # fmt: skip
    return Execution(**values | fields)


def event(**fields):
    values: dict[str, Any] = {
        "id": 9, "task_id": 7, "tenant_id": 3, "seq": 4, "at": START, "kind": "failed", "before": "running",
        "after": "failed", "actor": "worker:1", "exec_id": EXEC_ID, "correlation_id": "a" * 32,
        "detail": '{"reason": "fatal"}',
    }  # fmt: skip
    return AuditEvent(**values | fields)


def test_a_task_message_has_ids_and_headers_and_no_payload():
    """Spec: D1, D10"""
    message = task_message(execution(), START - timedelta(hours=1), "headgate.tasks.slow.mail")
    assert (message.exchange, message.routing_key) == ("headgate.tasks", "headgate.tasks.slow.mail")
    assert (message.message_id, message.correlation_id, message.mandatory) == (EXEC_ID, "order-1", True)
    assert message.body == b""
    assert message.headers == {
        "task_id": 7, "tenant_id": 3, "user": 42, "type": "mail", "lane": "slow", "attempt": 4,
        "submitted_at": (START - timedelta(hours=1)).isoformat(), "x-retry-count": 2,
    }  # fmt: skip
    assert delivered_task(message.message_id, message.headers["task_id"]) == (7, EXEC_ID)


def test_a_correlation_id_that_is_a_trace_goes_along_as_one():
    """Spec: D10"""
    traced = task_message(execution(correlation_id="b" * 32), START, "q")
    assert traced.headers["trace_id"] == "b" * 32
    assert "trace_id" not in task_message(execution(correlation_id=None), START, "q").headers


@pytest.mark.parametrize(
    ("type_code", "key"),
    [("mail", "task.failed.mail"), ("shop.mail", "task.failed.shop.mail"), ("#", "task.failed.@23")],
)
def test_an_event_is_published_under_its_kind_and_type(type_code, key):
    """Spec: D6"""
    message = event_message(event(), type_code)
    assert (message.exchange, message.routing_key, message.message_id) == ("headgate.events", key, "event-9")
    body = json.loads(message.body)
    assert (body["id"], body["kind"], body["detail"], body["type"]) == (9, "failed", {"reason": "fatal"}, type_code)
    assert not message.mandatory, "an event that nobody follows is no trouble"


def test_a_final_failure_that_the_store_has_forgotten_is_published_all_the_same():
    """Spec: D5"""
    message = dead_message(event(), "mail", None)
    assert (message.exchange, message.message_id, message.headers["reason"]) == ("headgate.dead", "dead-9", "fatal")
    assert "x-retry-count" not in message.headers


@pytest.mark.parametrize(
    ("message_id", "task_id"),
    [(None, 1), ("x", None), ("x", "1"), ("x", True), ("x", 0), ("x", 1 << 63), ("x", [1])],
)
def test_a_message_that_names_no_task_is_none(message_id, task_id):
    """Spec: D2"""
    assert delivered_task(message_id, task_id) is None


def test_what_rabbitmq_would_decide_by_itself_is_said():
    """Spec: D1, D2"""
    assert TASK_QUEUE["x-queue-type"] == DEAD_QUEUE["x-queue-type"] == "quorum"
    assert (TASK_QUEUE["x-delivery-limit"], TASK_QUEUE["x-overflow"]) == (20, "reject-publish")
    assert TASK_QUEUE["x-dead-letter-strategy"] == "at-least-once"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("amqp://u:secret@rabbit", "rabbit:5672"), ("amqps://u:secret@rabbit/x", "rabbit:5671"),
        ("amqp://[::1]:1234", "[::1]:1234"),
    ],
)  # fmt: skip
def test_a_broker_is_named_without_user_and_password(url, place):
    """Spec: D1"""
    assert place_of(url) == place
