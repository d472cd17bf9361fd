"""`GET /api/tasks/{id}/attempts`: each execution of a task, with its end."""

from headgate.core.end_reasons import EndReason
from headgate.core.keys import Role
from headgate.core.machine import Raised, Returned
from headgate.core.usage import Usage
from headgate.store.claim.contract import Outcome
from tests.factories import running, start, submit

ERROR = "OSError: gone\n\nTraceback: line 7"


def attempts_of(client, task_id, **headers):
    return client.get(f"/api/tasks/{task_id}/attempts", headers=headers)


def test_every_attempt_is_told_with_its_error_its_usage_and_its_log(client, store):
    """Spec: X8"""
    first = running(store)
    store.executions.add_log(first.id, first.exec_id, [("info", "one"), ("info", "two")])
    store.executions.settle([Outcome(first, Raised(ERROR, 0.0, EndReason.ERROR), Usage(1.5, 2_000_000, 3, None))])
    store.due.bring()
    [second] = start(store)
    [one, two] = attempts_of(client, first.id).json()["items"]
    lines = [line["id"] for line in client.get(f"/api/tasks/{first.id}/log").json()["items"]]
    assert (one["number"], one["exec_id"], one["outcome"]) == (1, first.exec_id, "retrying")
    assert (one["reason"], one["delay"], one["error"]) == ("error", 0.0, ERROR)
    assert one["executor"].startswith("worker:")
    assert one["started_at"] <= one["ended_at"]
    assert one["usage"] == {"cpu_seconds": 1.5, "memory_bytes": 2_000_000, "read_bytes": 3, "written_bytes": None}
    assert list(one["log"].values()) == lines
    assert (two["number"], two["exec_id"], two["outcome"], two["ended_at"]) == (2, second.exec_id, "running", None)
    assert (two["error"], two["log"]) == (None, None)


def test_a_task_that_succeeds_at_once_has_one_attempt(client, store):
    """Spec: X8"""
    execution = running(store)
    store.executions.settle([Outcome(execution, Returned())])
    [only] = attempts_of(client, execution.id).json()["items"]
    assert (only["number"], only["outcome"], only["error"]) == (1, "completed", None)


def test_a_task_that_has_not_started_has_no_attempts(client, store):
    """Spec: X8"""
    assert attempts_of(client, submit(store).id).json() == {"items": []}


def test_attempts_of_a_task_that_is_not_there_are_not_found(client):
    """Spec: X8, B11"""
    answer = attempts_of(client, 4711)
    assert (answer.status_code, answer.json()["detail"]) == (404, "no task 4711")


def test_another_tenants_attempts_are_not_found(client, store):
    """Spec: X8, B11"""
    execution = running(store, tenant_id=1)
    store.executions.settle([Outcome(execution, Raised(ERROR, None, EndReason.ERROR))])
    mine, theirs = (store.keys.add(f"k{tenant}", Role.READ, tenant_id=tenant)[1] for tenant in (1, 2))
    assert len(attempts_of(client, execution.id, Authorization=f"Bearer {mine}").json()["items"]) == 1
    answer = attempts_of(client, execution.id, Authorization=f"Bearer {theirs}")
    assert answer.status_code == 404
    assert "gone" not in answer.text
