"""`headgate callbacks` and `headgate redeliver`; and what the doctor says of them."""

import pytest

from headgate.core.callbacks import Attempt, CallbackKind, Delivery
from headgate.core.machine import Raised, Returned
from headgate.core.states import State
from headgate.core.task import TaskType
from headgate.outward.callback import sealed_callback
from headgate.outward.sealing import Seals
from headgate.store.callbacks.deliveries import DeliveryOutcome
from headgate.store.callbacks.holds import NewHold
from tests.factories import put, running, settle

BOTH = {"success": {"url": "https://good.example/x"}, "error": {"url": "https://bad.example/y"}}
SECRET = "what the server keeps to itself"  # noqa: S105


def owed(store, event=None):
    store.types.put(TaskType("told", callback=BOTH))
    execution = running(store, "told")
    settle(store, execution, event or Returned())
    return execution.id


def sent(store, attempt, status):
    [leased] = store.deliveries.record_and_lease([], [("told", CallbackKind.SUCCESS, 1)], 60.0)
    store.deliveries.record([DeliveryOutcome(leased, "good.example", attempt, status)])


def test_a_task_shows_who_was_told_and_what_they_answered(anywhere, run):
    """Spec: B6"""
    task_id = owed(anywhere)
    sent(anywhere, Attempt(503, 0.25, body="not\x1b[31m now"), Delivery.PENDING)
    sent(anywhere, Attempt(None, 15.0, "no whole answer within 15 s"), Delivery.UNDELIVERABLE)
    shown = run("callbacks", task_id).out
    assert "undeliverable" in shown
    assert [line.split()[3] for line in shown.splitlines()[-2:]] == ["good.example", "good.example"]
    assert "no whole answer within 15 s" in shown
    assert "\x1b" not in shown
    assert "good.example, attempt 2: no whole answer within 15 s" in run("show", task_id).out
    assert "given up until someone sends it again" in run("why", task_id).out
    told = run("callbacks", task_id, "--json").json
    assert run("show", task_id, "--json").json["callbacks"] == [told]
    assert (told["status"], [each["status"] for each in told["history"]]) == ("undeliverable", [None, 503])


def test_callbacks_of_all_tasks_are_listed_and_chosen(anywhere, run):
    """Spec: B6"""
    assert run("callbacks").out == "no callbacks\n"
    first, second = owed(anywhere), owed(anywhere, Raised("no"))
    sent(anywhere, Attempt(410, 0.1), Delivery.UNDELIVERABLE)

    def found(*words):
        return [line["task_id"] for line in run("callbacks", *words, "--json").lines]

    assert found() == [second, first]
    assert found("--status", "undeliverable") == [first]
    assert found("--host", "bad.example") == [second]
    assert found("--type", "other") == []
    assert found("--limit", 1) == [second]
    assert "good.example" in run("callbacks").out


def test_a_callback_is_sent_again(anywhere, run):
    """Spec: B6"""
    first, second = owed(anywhere), owed(anywhere)
    for _ in range(2):
        sent(anywhere, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    assert run("redeliver", first).out == f"{first} success callback 1 is due\n"
    assert run("redeliver", "--undeliverable", "--host", "other.example").out == "no callbacks\n"
    assert run("redeliver", "--undeliverable", "--json").json["task_id"] == second
    assert run("redeliver", "--undeliverable").out == "no callbacks\n"
    assert {line["status"] for line in run("callbacks", "--json").lines} == {"pending"}


def test_what_lies_far_back_is_found_and_sent_again_too(here, run, monkeypatch):
    """Spec: B6"""
    monkeypatch.setattr("headgate.store.callbacks.report.MOST_READ", 2)
    far = owed(here)
    for _ in range(6):
        owed(here, Raised("no"))
    sent(here, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    assert run("callbacks", "--host", "good.example", "--json").json["task_id"] == far
    assert len(run("callbacks", "--host", "bad.example", "--limit", 5, "--json").lines) == 5
    assert run("redeliver", "--undeliverable", "--host", "good.example").out == f"{far} success callback 1 is due\n"


def test_what_cannot_be_sent_again_is_refused_and_holds_up_none_of_the_rest(here, run):
    """Spec: B6"""
    plain, told = put(here, State.SUCCEEDED).id, owed(here)
    answer = run("redeliver", plain, 4711, told)
    assert (answer.code, answer.out) == (1, f"{told} success callback 1 is due\n")
    assert "has no callback to send" in answer.err
    assert run("redeliver", 4711).code == 3
    assert run("callbacks", 4711).code == 3


@pytest.mark.parametrize(
    "words",
    [["redeliver"], ["redeliver", 1, "--undeliverable"], ["redeliver", 1, "--host", "x"],
     ["callbacks", 1, "--host", "x"], ["callbacks", "--status", "lost"]],
)  # fmt: skip
def test_which_is_meant_is_said_clearly(here, run, words):
    """Spec: B6"""
    assert run(*words).code == 2


def test_what_the_policy_blocks_is_shown_by_callbacks_why_and_the_doctor(anywhere, run):
    """Spec: B6"""
    anywhere.deliveries.say_alive()
    task_id, failed = owed(anywhere), owed(anywhere, Raised("no"))
    queues = (("told", CallbackKind.SUCCESS), ("told", CallbackKind.ERROR))
    anywhere.deliveries.hold(
        [NewHold(queue, "10.0.0.5:9000", 60.0, True, "10.0.0.5 is a private network") for queue in queues]
    )
    for known in (task_id, failed):
        assert "HEADGATE_CALLBACK_ALLOW does not allow 10.0.0.5:9000" in run("why", known).out
    listed = run("callbacks", "--status", "blocked", "--json").lines
    assert [(one["task_id"], one["host"], one["last_error"]) for one in listed] == [
        (failed, "10.0.0.5:9000", "10.0.0.5 is a private network"),
        (task_id, "10.0.0.5:9000", "10.0.0.5 is a private network"),
    ]
    assert "blocked" in run("callbacks", task_id).out
    [check] = [check for check in run("doctor", "--json").json["checks"] if check["name"] == "callbacks"]
    assert check["found"] == "2 blocked: HEADGATE_CALLBACK_ALLOW does not allow 10.0.0.5:9000"


def test_a_receiver_that_rests_is_shown_with_the_end_of_its_rest(anywhere, run):
    """Spec: B6"""
    anywhere.deliveries.say_alive()
    task_id = owed(anywhere)
    anywhere.deliveries.hold([NewHold(("told", CallbackKind.SUCCESS), "good.example", 60.0, False, "status 503")])
    assert "receiver on hold until" in run("callbacks", task_id).out
    assert "good.example keeps failing, so callbacks to it are on hold" in run("why", task_id).out
    assert run("callbacks", task_id, "--json").json["receiver_rests_until"] is not None


def test_the_doctor_sees_what_cannot_be_delivered_and_what_cannot_be_opened(here, run, monkeypatch):
    """Spec: B6"""

    def found(name):
        return next(check for check in run("doctor", "--json").json["checks"] if check["name"] == name)

    assert (found("callbacks")["state"], found("secrets")["state"]) == ("ok", "ok")
    task_id = owed(here)
    assert found("callbacks")["found"] == "1 pending, and no process sends them"
    assert "no process sends callbacks" in run("why", task_id).out
    here.deliveries.say_alive()
    assert found("callbacks")["found"] == "1 pending, none undeliverable"
    sent(here, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    assert (found("callbacks")["state"], found("callbacks")["found"]) == ("warn", "1 undeliverable")
    security = {"security": {"type": "aksk", "ak": "us", "sk": "s" * 24}}
    here.types.put(TaskType("signed", callback=sealed_callback(security, "signed", Seals([SECRET]))))
    assert found("secrets")["found"] == "sealed, and HEADGATE_SECRET is not set here: signed"
    monkeypatch.setenv("HEADGATE_SECRET", "another that is as long as one has to be")
    assert found("secrets")["found"] == "sealed with another HEADGATE_SECRET: signed"
    monkeypatch.setenv("HEADGATE_SECRET", f"a newer secret of it,{SECRET}")
    assert found("secrets")["state"] == "ok"


def test_a_worker_alone_says_that_nobody_sends_what_is_owed(here, spawn):
    """Spec: B6"""
    owed(here)
    spawn("work", "shop").hear("callbacks are pending and no process sends them: run `headgate up`")
