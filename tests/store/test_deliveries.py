"""Callbacks in the store: owed with the transition, leased before they are sent, on record afterwards."""

import json

import pytest

from headgate.core.callbacks import Attempt, CallbackKind, Delivery
from headgate.core.errors import NotFound, Refused
from headgate.core.event_texts import event_params
from headgate.core.machine import LeaseLost, Raised, Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.callbacks.deliveries import DeliveryOutcome
from headgate.store.callbacks.report import DeliveryFilter
from headgate.store.claim.contract import Outcome as Ended
from headgate.store.store import open_store
from tests.factories import running, settle, sql, start

BOTH = {"success": {"url": "https://example.org/good"}, "error": {"url": "https://example.org/bad"}}
LEASE = 60.0
OK, BAD = Attempt(204, 0.1), Attempt(500, 0.2, body="broken")


@pytest.fixture(autouse=True)
def types(store):
    store.types.put(TaskType("told", callback=BOTH))
    store.types.put(TaskType("told-manual", callback=BOTH, need_manual=True))
    store.types.put(TaskType("told-errors", callback={"error": BOTH["error"]}))


def lease(store, kind=CallbackKind.SUCCESS, type_code="told", count=10, seconds=LEASE):
    return store.deliveries.record_and_lease([], [(type_code, kind, count)], seconds)


def record(store, leased, attempt=OK, status=Delivery.DELIVERED, delay=0.0, host="example.org"):
    store.deliveries.record([DeliveryOutcome(leased, host, attempt, status, delay)])


def succeeded(store, type_code="told", **fields):
    """A task whose success callback is owed; its id."""
    execution = running(store, type_code, **fields)
    assert settle(store, execution, Returned('{"n": 1}')) is State.NOTIFYING
    return execution.id


def failed(store, type_code="told", error="no luck"):
    execution = running(store, type_code)
    settle(store, execution, Raised(error))
    return execution.id


def one(found):
    [only] = found
    return only


def kinds(store, task_id):
    return [event.kind for event in store.events.of(task_id)]


# What is owed


def test_a_success_is_owed_its_callback_with_the_transition(store):
    """Spec: B6"""
    task_id = succeeded(store, ext='{"a": 1}')
    [sent] = store.deliveries.of_task(task_id)
    assert (sent.kind, sent.status, sent.attempts, sent.type, sent.host) == ("success", "pending", 0, "told", None)
    [leased] = lease(store)
    assert leased.body == b'{"ext":{"a": 1},"result":{"n": 1}}'
    assert (leased.webhook_id, leased.attempts) == (sent.webhook_id, 1)


def test_a_tenant_with_many_callbacks_keeps_no_other_waiting(store):
    """Spec: X12, B6"""
    many = [succeeded(store, tenant_id=1) for _ in range(9)]
    [single] = [succeeded(store, tenant_id=2)]
    first = [leased.task_id for leased in lease(store, count=4)]
    assert sorted(first) == sorted([*many[:2], single])  # two places each; what one leaves, the next turn gives away
    assert [leased.task_id for leased in lease(store, count=4)] == many[2:6]


@pytest.mark.parametrize(
    ("type_code", "state"), [("told", "failed"), ("told-manual", "dead"), ("told-errors", "failed")]
)
def test_a_failure_is_owed_its_callback_and_stays_what_it_is(store, type_code, state):
    """Spec: B6"""
    task_id = failed(store, type_code)
    assert store.tasks.get(task_id).status == state
    [leased] = lease(store, CallbackKind.ERROR, type_code)
    assert json.loads(leased.body) == {"task_id": task_id, "error_info": "no luck", "ext": {}}
    record(store, leased)
    assert store.tasks.get(task_id).status == state
    assert store.deliveries.of_task(task_id)[0].status == "delivered"


def test_a_purge_leaves_a_failure_whose_callback_is_still_owed(store):
    """Spec: A7, B6"""
    task_id = failed(store)
    store.history.archive()
    assert store.history.purge([State.FAILED], seconds=0) == 0
    [leased] = lease(store, CallbackKind.ERROR)
    record(store, leased)
    assert store.history.purge([State.FAILED], seconds=0) == 1
    with pytest.raises(NotFound):
        store.tasks.get(task_id)


def test_a_callback_that_is_never_delivered_keeps_its_task_for_a_week(store, clock):
    """Spec: A7"""
    failed(store)
    store.history.archive()
    clock.advance(7 * 86400 + 1)
    assert store.history.purge([State.FAILED], seconds=0) == 1


def test_many_ends_in_one_batch_are_each_owed_their_own(store):
    """Spec: B6"""
    for number in range(6):
        store.tasks.submit(NewTask("told", ext=json.dumps({"number": number})))
    executions = start(store, 6)
    events = [Returned(str(n)) if n % 3 else Raised(f"error {n}") for n in range(6)]
    store.executions.settle([Ended(execution, event) for execution, event in zip(executions, events, strict=True)])
    good = {json.loads(each.body)["ext"]["number"]: json.loads(each.body)["result"] for each in lease(store)}
    bad = {
        json.loads(each.body)["task_id"]: json.loads(each.body)["error_info"]
        for each in lease(store, CallbackKind.ERROR)
    }
    assert good == {1: 1, 2: 2, 4: 4, 5: 5}
    assert bad == {executions[0].id: "error 0", executions[3].id: "error 3"}
    assert len({sent.webhook_id for sent in store.deliveries.find(DeliveryFilter()).items}) == 6


def test_types_without_a_callback_and_a_plain_success_owe_nothing(store):
    """Spec: B6"""
    settle(store, running(store), Returned())
    settle(store, running(store), Raised("no"))
    settle(store, running(store, "told"), Returned(completed=False))
    settle(store, running(store, "told-errors"), Returned())
    assert store.deliveries.find(DeliveryFilter()).items == []
    assert store.deliveries.lines() == []


def test_a_discarded_task_owes_no_second_error_callback(store):
    """Spec: B6"""
    task_id = failed(store, "told-manual")
    store.tasks.discard(task_id)
    assert len(store.deliveries.of_task(task_id)) == 1


def test_a_persons_retry_that_fails_again_is_a_new_end_and_each_says_its_own_error(store):
    """Spec: B6"""
    task_id = failed(store, "told-manual", "the first")
    store.tasks.retry(task_id)
    [execution] = start(store)
    settle(store, execution, Raised("the second"))
    errors = [json.loads(each.body)["error_info"] for each in lease(store, CallbackKind.ERROR, "told-manual")]
    assert errors == ["the first", "the second"]


def test_poison_owes_an_error_callback(store):
    """Spec: B6"""
    execution = running(store, "told")
    for _ in range(3):
        settle(store, execution, LeaseLost())
        [execution] = start(store) or [execution]
    assert store.tasks.get(execution.id).status is State.FAILED
    assert [sent.kind for sent in store.deliveries.of_task(execution.id)] == ["error"]


def test_a_family_owes_what_its_end_asks_for(store):
    """Spec: B6, D7"""
    for event, kind in ((Returned(), "success"), (Raised("no"), "error")):
        parent = running(store, "told")
        store.tasks.submit(NewTask("plain", parent_id=parent.id))
        settle(store, parent, Returned("1"))
        [child] = start(store)
        settle(store, child, event)
        assert [sent.kind for sent in store.deliveries.of_task(parent.id)] == [kind]


def test_a_transaction_that_fails_owes_nothing(store, url):
    """Spec: B6"""
    execution = running(store, "told")
    with open_store(url) as other, pytest.raises(ZeroDivisionError):
        other.database.write(lambda db: (other.catalog.fresh(db), settle_in(other, db, execution), 1 / 0))
    assert store.deliveries.find(DeliveryFilter()).items == []
    assert store.tasks.get(execution.id).status is State.RUNNING


def settle_in(store, db, execution):
    return store.executions.settle_in(db, [Ended(execution, Returned())], "tester")


# Leases


def test_no_two_get_the_same_until_the_lease_is_over(store, clock):
    """Spec: B6"""
    succeeded(store)
    [first] = lease(store)
    assert lease(store) == []
    clock.advance(LEASE - 1)
    assert lease(store) == []
    clock.advance(2)
    [second] = lease(store)
    assert (second.webhook_id, second.body, second.attempts) == (first.webhook_id, first.body, 2)
    assert second.lease != first.lease


def test_a_line_is_taken_oldest_first_and_no_more_than_was_asked_for(store, clock):
    """Spec: B6"""
    ids = []
    for _ in range(3):
        ids.append(succeeded(store))
        clock.advance(1)
    failed(store)
    assert [each.task_id for each in lease(store, count=2)] == ids[:2]
    assert [each.task_id for each in lease(store, count=2)] == ids[2:]


def test_the_lines_say_what_waits_and_for_how_long(store, clock):
    """Spec: B6"""
    succeeded(store)
    failed(store)
    failed(store, "told-errors")
    clock.advance(3)
    assert sorted(line[:3] for line in store.deliveries.lines()) == [
        ("told", "error", -3), ("told", "success", -3), ("told-errors", "error", -3)
    ]  # fmt: skip
    [leased] = lease(store)
    record(store, leased, BAD, Delivery.PENDING, 40)
    assert ("told", "success", 40, None) in store.deliveries.lines()


def test_what_was_not_sent_is_given_back_and_not_counted(store):
    """Spec: B6"""
    succeeded(store)
    leased = lease(store)
    store.deliveries.give_back(leased)
    assert [each.attempts for each in lease(store)] == [1]
    store.deliveries.give_back(leased)  # under a lease that is over: nothing
    assert lease(store) == []


# What came of it


def test_a_delivered_success_ends_notifying_and_is_on_record(store, clock):
    """Spec: B6"""
    task_id = succeeded(store)
    [leased] = lease(store)
    clock.advance(1)
    record(store, leased, Attempt(200, 0.25, body="thanks"))
    assert store.tasks.get(task_id).status is State.SUCCEEDED
    assert kinds(store, task_id)[-1] == "notified"
    [sent] = store.deliveries.of_task(task_id)
    assert (sent.status, sent.host, sent.last_status, sent.due_at) == ("delivered", "example.org", 200, None)
    assert sent.delivered_at == clock()
    [attempt] = sent.tries
    assert (attempt.status, attempt.seconds, attempt.body, attempt.error) == (200, 0.25, "thanks", "")
    assert store.deliveries.lines() == []


def test_a_failed_attempt_waits_for_its_time_and_keeps_its_id(store, clock):
    """Spec: B6"""
    task_id = succeeded(store)
    [first] = lease(store)
    record(store, first, BAD, Delivery.PENDING, 30)
    assert (store.tasks.get(task_id).status, lease(store)) == (State.NOTIFYING, [])
    clock.advance(31)
    [second] = lease(store)
    assert (second.webhook_id, second.attempts) == (first.webhook_id, 2)
    record(store, second)
    assert [attempt.status for attempt in store.deliveries.of_task(task_id)[0].tries] == [204, 500]


def test_an_undeliverable_success_stays_notifying_for_a_person_to_see(store):
    """Spec: B6"""
    task_id = succeeded(store)
    [leased] = lease(store)
    record(store, leased, Attempt(410, 0.1), Delivery.UNDELIVERABLE)
    assert store.tasks.get(task_id).status is State.NOTIFYING
    assert kinds(store, task_id)[-1] == "undeliverable"
    assert event_params(store.events.of(task_id)[-1]) == {
        "callback_kind": "success", "host": "example.org", "attempts": 1, "last": "status 410",
    }  # fmt: skip
    assert [sent.task_id for sent in store.deliveries.find(DeliveryFilter(status=Delivery.UNDELIVERABLE)).items] == [
        task_id
    ]
    assert store.deliveries.deliverables().undeliverable == 1
    assert [store.deliveries.undeliverable(tenant) for tenant in (None, 0, 7)] == [(1, True), (1, True), (0, True)]
    assert store.deliveries.lines() == []


def test_a_failure_that_is_told_late_changes_nothing_and_a_late_success_counts(store, clock):
    """Spec: B6"""
    task_id = succeeded(store)
    [slow] = lease(store)
    clock.advance(LEASE + 1)
    [quick] = lease(store)
    record(store, slow, BAD, Delivery.UNDELIVERABLE)
    assert store.deliveries.of_task(task_id)[0].status == "pending"
    record(store, slow, OK)
    assert store.tasks.get(task_id).status is State.SUCCEEDED
    record(store, quick, BAD, Delivery.PENDING, 10)
    [sent] = store.deliveries.of_task(task_id)
    assert (sent.status, len(sent.tries)) == ("delivered", 2)  # what is told twice of one attempt is kept once


@pytest.mark.parametrize("first", [OK, BAD], ids=["delivered, then failed", "failed, then delivered"])
def test_of_two_attempts_that_a_sender_reports_together_the_delivery_counts(store, clock, first):
    """Spec: B6. It was slower than its own lease, and sent the callback again."""
    task_id = succeeded(store)
    outcomes = []
    for attempt in (first, BAD if first is OK else OK):
        [leased] = lease(store)
        clock.advance(LEASE + 1)
        status, delay = (Delivery.DELIVERED, 0.0) if attempt is OK else (Delivery.PENDING, 30.0)
        outcomes.append(DeliveryOutcome(leased, "example.org", attempt, status, delay))
    store.deliveries.record(outcomes)
    [sent] = store.deliveries.of_task(task_id)
    assert (sent.status, len(sent.tries)) == ("delivered", 2)
    assert store.tasks.get(task_id).status is State.SUCCEEDED


def test_a_success_told_after_it_was_given_up_counts(store, clock):
    """Spec: B6"""
    task_id = succeeded(store)
    [slow] = lease(store)
    clock.advance(LEASE + 1)
    [quick] = lease(store)
    record(store, quick, BAD, Delivery.UNDELIVERABLE)
    record(store, slow, OK)
    assert store.tasks.get(task_id).status is State.SUCCEEDED
    assert store.deliveries.of_task(task_id)[0].status == "delivered"


def test_a_type_that_lost_its_callback_ends_notifying_without_one(store):
    """Completed without a callback is Success. Spec: B6"""
    task_id = succeeded(store)
    [leased] = lease(store)
    record(store, leased, Attempt(None, 0, "the type has no callback"), Delivery.DROPPED, host=None)
    assert store.tasks.get(task_id).status is State.SUCCEEDED
    [sent] = store.deliveries.of_task(task_id)
    assert (sent.status, sent.tries, sent.last_error) == ("dropped", [], "the type has no callback")


def test_a_child_whose_callback_arrived_lets_its_family_end(store):
    """Spec: B6, D7"""
    parent = running(store)
    store.tasks.submit(NewTask("told", parent_id=parent.id))
    settle(store, parent, Returned())
    [child] = start(store)
    settle(store, child, Returned())
    assert store.tasks.get(parent.id).status is State.WAITING
    record(store, one(lease(store)))
    assert store.tasks.get(parent.id).status is State.SUCCEEDED


@pytest.mark.parametrize("act", ["cancel", "resolve", "delivered"])
def test_whoever_ends_notifying_calls_the_callback_off(store, act):
    """Spec: B6, B7, B8"""
    task_id = succeeded(store)
    [leased] = lease(store)
    end = store.tasks.resolve(task_id, "told by telephone") if act == "resolve" else getattr(store.tasks, act)(task_id)
    assert end.status == {"cancel": "cancelled", "resolve": "resolved", "delivered": "succeeded"}[act]
    assert store.deliveries.of_task(task_id)[0].status == "dropped"
    record(store, leased)  # it was under way: that it arrived is on record, and changes nothing
    [sent] = store.deliveries.of_task(task_id)
    assert (sent.status, [attempt.status for attempt in sent.tries]) == ("dropped", [204])
    assert store.tasks.get(task_id).status == end.status


def test_a_person_who_dealt_with_an_undeliverable_callback_is_reminded_of_it_no_more(store):
    """Spec: B6, B7"""
    task_id = succeeded(store)
    record(store, one(lease(store)), BAD, Delivery.UNDELIVERABLE)
    store.tasks.resolve(task_id, "told by telephone")
    assert store.deliveries.of_task(task_id)[0].status == "dropped"
    assert store.deliveries.deliverables().undeliverable == 0


# By hand


def test_a_person_sends_an_undeliverable_callback_again_under_the_same_id(store):
    """Spec: B6"""
    task_id = succeeded(store)
    [first] = lease(store)
    record(store, first, BAD, Delivery.UNDELIVERABLE)
    sent = store.deliveries.redeliver(task_id, actor="ann")
    assert (sent.status, sent.attempts) == ("pending", 0)
    assert [(event.kind, event.actor) for event in store.events.of(task_id)][-1] == ("redelivery_asked", "ann")
    [second] = lease(store)
    assert second.webhook_id == first.webhook_id
    record(store, second)
    assert store.tasks.get(task_id).status is State.SUCCEEDED


def test_a_person_need_not_wait_for_the_next_attempt(store):
    """Spec: B6"""
    task_id = succeeded(store)
    record(store, one(lease(store)), BAD, Delivery.PENDING, 3600)
    store.deliveries.redeliver(task_id)
    assert len(lease(store)) == 1
    store.deliveries.redeliver(task_id)  # it is being sent just now: whoever does that goes on
    assert lease(store) == []


def test_what_was_delivered_is_sent_again_and_its_task_stays_as_it_is(store):
    """Spec: B6"""
    task_id = succeeded(store)
    record(store, one(lease(store)))
    store.history.archive()
    store.deliveries.redeliver(task_id)
    record(store, one(lease(store)), BAD, Delivery.UNDELIVERABLE)
    assert store.tasks.get(task_id).status is State.SUCCEEDED
    [sent] = store.deliveries.of_task(task_id)
    assert (sent.status, sent.delivered_at is not None) == ("undeliverable", True)


def test_of_several_callbacks_the_last_is_sent_again_or_the_one_named(store):
    """Spec: B6"""
    task_id = failed(store, "told-manual", "the first")
    store.tasks.retry(task_id)
    settle(store, one(start(store)), Raised("the second"))
    for each in lease(store, CallbackKind.ERROR, "told-manual"):
        record(store, each)
    last, first = store.deliveries.of_task(task_id)
    assert store.deliveries.redeliver(task_id).id == last.id
    assert store.deliveries.redeliver(task_id, delivery_id=first.id).id == first.id
    with pytest.raises(NotFound):
        store.deliveries.redeliver(task_id, delivery_id=10**6)


def test_nothing_is_sent_again_that_was_never_owed_or_is_not_true_any_more(store):
    """Spec: B6"""
    with pytest.raises(Refused, match="has no callback to send"):
        store.deliveries.redeliver(running(store).id)
    with pytest.raises(NotFound):
        store.deliveries.redeliver(10**6)
    task_id = succeeded(store)
    with pytest.raises(NotFound):
        store.deliveries.redeliver(task_id, tenant_id=7)
    store.tasks.cancel(task_id)
    with pytest.raises(Refused, match="is cancelled"):
        store.deliveries.redeliver(task_id)
    task_id = succeeded(store)
    store.types.put(TaskType("told"))
    with pytest.raises(Refused, match="no success callback any more"):
        store.deliveries.redeliver(task_id)


# Lists and history


def test_callbacks_are_listed_by_status_kind_type_host_and_tenant(store):
    """Spec: B6, B11"""
    first, second = succeeded(store), succeeded(store, tenant_id=7)
    third = failed(store, "told-errors")
    [leased] = lease(store, count=1)
    record(store, leased, host="old.example")

    def found(**wanted):
        return [sent.task_id for sent in store.deliveries.find(DeliveryFilter(**wanted)).items]

    assert found() == [third, second, first]
    assert found(status=Delivery.DELIVERED) == [first]
    assert found(status=Delivery.PENDING) == [third, second]
    assert found(kind=CallbackKind.ERROR) == [third]
    assert found(type="told") == [second, first]
    assert found(tenant_id=7) == [second]
    assert found(host="old.example") == [first]
    assert found(host="example.org", lines=(("told", CallbackKind.SUCCESS),)) == [second]
    assert found(host="elsewhere") == []
    page = store.deliveries.find(DeliveryFilter(), limit=2)
    assert [sent.task_id for sent in page.items] == [third, second]
    assert [sent.task_id for sent in store.deliveries.find(DeliveryFilter(), cursor=page.next_cursor).items] == [first]


def test_a_page_looks_at_so_many_and_says_where_to_go_on(store, monkeypatch):
    """Spec: B6, X4"""
    monkeypatch.setattr("headgate.store.callbacks.report.MOST_READ", 2)
    mine = succeeded(store, tenant_id=7)
    others = [succeeded(store) for _ in range(4)]
    first = store.deliveries.find(DeliveryFilter(tenant_id=7))
    assert (first.items, first.next_cursor is not None) == ([], True)
    second = store.deliveries.find(DeliveryFilter(tenant_id=7, status=Delivery.PENDING), cursor=first.next_cursor)
    third = store.deliveries.find(DeliveryFilter(tenant_id=7), cursor=second.next_cursor)
    assert [sent.task_id for sent in second.items + third.items] == [mine]
    assert third.next_cursor is None
    assert len(store.deliveries.find(DeliveryFilter()).items) == len(others) + 1


def test_another_tenants_callbacks_are_as_absent_as_none(store):
    """Spec: B11"""
    task_id = succeeded(store, tenant_id=7)
    assert len(store.deliveries.of_task(task_id, 7)) == 1
    with pytest.raises(NotFound):
        store.deliveries.of_task(task_id, 8)


def test_callbacks_leave_with_their_task(store, clock, url):
    """Spec: A7"""
    task_id = succeeded(store)
    record(store, one(lease(store)))
    store.history.archive()
    assert len(store.deliveries.of_task(task_id)) == 1
    clock.advance(10)
    assert store.history.purge([State.SUCCEEDED], seconds=5) == 1
    assert sql(url, "SELECT count(*) FROM headgate_callback_delivery") == sql(
        url, "SELECT count(*) FROM headgate_callback_attempt"
    )
    assert sql(url, "SELECT * FROM headgate_callback_delivery") == []


def test_attempts_are_counted_once_they_have_settled(store, clock):
    """Spec: D11"""
    succeeded(store)
    assert store.deliveries.last_attempt() == 0
    record(store, one(lease(store)), BAD, Delivery.PENDING)
    assert store.deliveries.attempts_after(0, 10) == []
    clock.advance(6)
    [pulse] = store.deliveries.attempts_after(0, 10)
    assert (pulse.status, pulse.seconds) == (500, 0.2)
    assert store.deliveries.attempts_after(pulse.id, 10) == []
    assert store.deliveries.last_attempt() == pulse.id


def test_those_who_send_hear_of_what_is_owed_and_nobody_else_of_what_is_not(store, url):
    """Spec: B6"""
    heard = []
    store.wakeups.on_callbacks(lambda _: heard.append(True))
    settle(store, running(store), Returned())
    assert heard == []
    task_id = succeeded(store)
    assert heard == [True]
    store.deliveries.redeliver(task_id)
    assert len(heard) == 2
