"""Schedules as people and programs make and edit them."""

from datetime import UTC, datetime, timedelta

import pytest

from headgate.core.cron import Missed, Overlap
from headgate.core.errors import Invalid, KeyReused, NotFound, UnknownType
from headgate.core.schedule import Endpoint, LogMode, ScheduleStatus
from headgate.core.task import NewTask, TaskType
from headgate.duties.schedules import due_firings
from headgate.store.tasks.idempotency import Idempotency
from tests.factories import START, sql, together
from tests.schedules import CALLED, fired, new, online, tick


def test_a_schedule_is_kept_as_it_was_asked_for(store):
    """Spec: B9"""
    said = new(
        "30 2 * * MON-FRI", tenant_id=7, creator=5, category="night", ext='{"a": 1}', priority=2, mutex="m",
        lane="slow", timezone="Asia/Shanghai", log="trigger_log", missed="once", overlap="queue",
    )  # fmt: skip
    made = store.schedules.add(said)
    assert made.definition == said
    assert (made.status, made.next_tick, made.create_date, made.update_date) == (ScheduleStatus.NEW, None, START, START)
    assert store.schedules.get(made.id) == made


def test_it_is_a_plain_cron_unless_something_else_is_said(store):
    """Spec: B9, B10"""
    made = store.schedules.add(new()).definition
    assert (made.timezone, made.log, made.missed, made.overlap, made.http) == (
        "UTC", LogMode.TRANS, Missed.SKIP, Overlap.ALLOW, None,
    )  # fmt: skip


def test_one_that_is_made_online_waits_for_its_next_tick(store):
    """Spec: B9"""
    assert online(store, "0 3 * * *").next_tick == datetime(2026, 3, 2, 3, tzinfo=UTC)
    assert online(store, "0 3 * * *", timezone="Asia/Shanghai").next_tick == datetime(2026, 3, 1, 19, tzinfo=UTC)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cron": "61 * * * *"}, {"cron": "0 0 30 2 *"}, {"timezone": "Mars/Olympus"}, {"ext": "{"}, {"mutex": ""},
        {"priority": 2**63}, {"start_time": START}, {"delay_seconds": 1}, {"parent_id": 1}, {"correlation_id": "x"},
        {"unique_key": "u", "unique_seconds": 5}, {"unique_key": "u", "debounce_seconds": 5},
        {"http": Endpoint("ftp://example.org")}, {"http": Endpoint("https://")}, {"http": Endpoint("https://a b/")},
        {"http": Endpoint("https://me:pw@example.org/")}, {"http": Endpoint("https://example.org", "BREW")},
        {"http": Endpoint("https://example.org:0/")}, {"http": Endpoint("https://[x/")},
        {"http": Endpoint("https://example.org/" + "x" * 2000)}, {"type_code": ""}, {"code": "mine"},
    ],
)  # fmt: skip
def test_what_breaks_a_rule_is_refused_and_nothing_is_made(store, wrong):
    """Spec: B9"""
    with pytest.raises(Invalid):
        store.schedules.add(new(**wrong))
    assert store.schedules.find() == []


def test_a_type_that_nobody_knows_is_refused_unless_an_endpoint_is_called(store):
    """Spec: B9"""
    with pytest.raises(UnknownType, match="did you mean plain"):
        store.schedules.add(new(type_code="plane"))
    assert store.schedules.add(new(type_code="plane", http=CALLED)).definition.http == CALLED


def test_with_a_key_a_schedule_is_made_once(store):
    """Spec: B9"""
    made = store.schedules.add(new(), once=Idempotency("k", "a"))
    assert store.schedules.add(new(), once=Idempotency("k", "a")) == made
    with pytest.raises(KeyReused):
        store.schedules.add(new("0 0 * * *"), once=Idempotency("k", "b"))
    assert len(store.schedules.find()) == 1


# Status


def test_going_online_begins_with_the_next_tick_and_what_came_before_was_not_missed(store, clock):
    """Spec: B9"""
    made = store.schedules.add(new(missed="all"))
    clock.advance(3600)
    assert store.schedules.online(made.id).next_tick == START + timedelta(minutes=61)
    clock.advance(30)
    assert store.schedules.online(made.id).next_tick == START + timedelta(minutes=61)


def test_offline_it_does_not_fire_and_the_ticks_meanwhile_are_not_missed(store, clock):
    """Spec: B9"""
    made = online(store, missed="all")
    assert tick(store, clock) == 1
    assert store.schedules.offline(made.id).next_tick is None
    assert tick(store, clock, minutes=5) == 0
    store.schedules.online(made.id)
    assert tick(store, clock) == 1
    assert fired(store, made) == [1, 7]


def test_a_tick_that_was_reckoned_before_is_not_fired_once_offline_has_returned(store, clock):
    """Spec: B9"""
    made = online(store)
    clock.advance(60)
    firings = list(due_firings(*store.schedules.due()))
    store.schedules.offline(made.id)
    assert store.schedules.fire(firings).schedules == 0
    store.schedules.online(made.id)
    assert store.schedules.fire(firings).schedules == 0
    assert fired(store, made) == []


# Edits


def test_an_edit_that_leaves_the_clock_alone_disturbs_no_tick_and_holds_from_its_return(store, clock):
    """Spec: B9"""
    made = online(store, "*/5 * * * *", missed="all")
    clock.advance(3 * 60)
    after = store.schedules.put(made.id, new("*/5 * * * *", ext='{"b": 2}', missed="all"))
    assert (after.next_tick, after.edited, after.status) == (made.next_tick, True, ScheduleStatus.ONLINE)
    assert tick(store, clock, minutes=2) == 1
    assert [task.ext for task in store.tasks.find().items] == ['{"b": 2}']


def test_a_tick_reckoned_before_an_edit_is_not_fired_after_it(store, clock):
    """Spec: B9"""
    made = online(store)
    clock.advance(60)
    firings = list(due_firings(*store.schedules.due()))
    store.schedules.put(made.id, new(ext='{"new": true}'))
    assert store.schedules.fire(firings).schedules == 0
    assert tick(store, clock, minutes=0) == 1
    assert [task.ext for task in store.tasks.find().items] == ['{"new": true}']


@pytest.mark.parametrize("other", [{"cron": "*/7 * * * *"}, {"timezone": "Asia/Kathmandu"}])
def test_with_another_clock_ticks_begin_anew_from_now(store, clock, other):
    """Spec: B9"""
    made = online(store, "*/5 * * * *", missed="all")
    clock.advance(3600)
    after = store.schedules.put(made.id, new(**{"cron": "*/5 * * * *", "missed": "all"} | other))
    assert after.next_tick is not None
    assert after.next_tick > START + timedelta(minutes=60)
    assert fired(store, made) == []


def test_neither_an_edit_nor_a_clock_that_is_set_back_brings_a_tick_again(store, clock):
    """Spec: B9"""
    made = online(store)
    for _ in range(3):
        tick(store, clock)
    clock.advance(-150)
    store.schedules.put(made.id, new(overlap="queue"))
    store.schedules.put(made.id, new("*/1 * * * *"))
    store.schedules.offline(made.id)
    assert store.schedules.online(made.id).next_tick == START + timedelta(minutes=4)
    for _ in range(5):
        tick(store, clock)
    assert fired(store, made) == [1, 2, 3, 4, 5]


def test_an_edit_may_change_its_status_and_never_its_tenant(store):
    """Spec: B9, B11"""
    made = store.schedules.add(new(tenant_id=7))
    after = store.schedules.put(made.id, new(tenant_id=8, creator=3), status=ScheduleStatus.ONLINE)
    assert (after.tenant_id, after.status, after.definition.task.creator) == (7, ScheduleStatus.ONLINE, 3)
    assert after.next_tick is not None


def test_a_removed_schedule_is_gone_with_its_log_and_its_tasks_go_on(store, clock):
    """Spec: B9"""
    made = online(store)
    tick(store, clock)
    store.schedules.remove(made.id)
    for look in (store.schedules.get, store.schedules.logs, store.schedules.trigger, store.schedules.remove):
        with pytest.raises(NotFound):
            look(made.id)
    assert tick(store, clock) == 0
    assert [task.status for task in store.tasks.find().items] == ["queued"]
    assert store.schedules.end_runs() == (0, None)


def test_who_did_what_to_a_schedule_is_in_the_audit(store, url, clock):
    """Spec: A12"""
    made = store.schedules.add(new(), actor="ann")
    store.schedules.online(made.id, actor="bob")
    store.schedules.online(made.id, actor="bob")
    store.schedules.put(made.id, new("0 0 * * *"), actor="cid")
    store.schedules.trigger(made.id, actor="dan")
    store.schedules.offline(made.id, actor="eve")
    store.schedules.remove(made.id, actor="fay")
    acts = sql(url, "SELECT kind, actor FROM headgate_task_event WHERE kind LIKE 'periodic%' ORDER BY id")
    assert acts == [
        ("periodic_added", "ann"), ("periodic_online", "bob"), ("periodic_changed", "cid"),
        ("periodic_triggered", "dan"), ("periodic_offline", "eve"), ("periodic_removed", "fay"),
    ]  # fmt: skip


# Programs


def test_what_a_program_declares_is_online_from_the_start_and_once(store):
    """Spec: B9"""
    wanted = [new(code="a"), new("0 0 * * *", code="b")]
    for _ in range(2):
        store.schedules.register(wanted)
    found = store.schedules.find()
    assert [(each.definition, each.status, each.edited) for each in found[::-1]] == [
        (said, ScheduleStatus.ONLINE, False) for said in wanted
    ]


def test_programs_that_start_at_once_make_one_schedule(store):
    """Spec: B9"""
    together(*[lambda: store.schedules.register([new(code="a")])] * 6)
    assert [each.definition.code for each in store.schedules.find()] == ["a"]


def test_a_program_that_declares_something_else_changes_it(store):
    """Spec: B9"""
    store.schedules.register([new(code="a")])
    store.schedules.register([new("0 4 * * *", code="a")])
    [found] = store.schedules.find()
    assert (found.definition.cron_expressions, found.next_tick) == ("0 4 * * *", datetime(2026, 3, 2, 4, tzinfo=UTC))


def test_a_program_never_overwrites_what_a_person_edited(store):
    """Spec: B9"""
    store.schedules.register([new(code="a")])
    [made] = store.schedules.find()
    edited = store.schedules.put(made.id, new("0 5 * * *"))
    store.schedules.register([new("0 6 * * *", code="a")])
    assert store.schedules.find() == [edited]
    assert edited.definition.code == "a"


def test_a_program_never_puts_on_line_what_a_person_took_off(store):
    """Spec: B9"""
    store.schedules.register([new(code="a")])
    [made] = store.schedules.find()
    store.schedules.offline(made.id)
    store.schedules.register([new("0 6 * * *", code="a")])
    [found] = store.schedules.find()
    assert (found.status, found.next_tick, found.definition.cron_expressions) == (
        ScheduleStatus.OFFLINE,
        None,
        "0 6 * * *",
    )


@pytest.mark.parametrize("wanted", [[new()], [new(code="a"), new(code="a")]])
def test_a_programs_schedules_have_codes_each_its_own(store, wanted):
    """Spec: B9"""
    with pytest.raises(Invalid):
        store.schedules.register(wanted)


# Lists and tenants


def test_lists_are_paged_newest_first_and_filtered(store):
    """Spec: B9"""
    made = [store.schedules.add(new(tenant_id=number % 2, type_code="manual" if number == 4 else "plain")) for number in
            range(5)]  # fmt: skip
    ids = [each.id for each in made]
    store.schedules.online(ids[1])
    assert [each.id for each in store.schedules.find(limit=2)] == ids[:2:-1]
    assert [each.id for each in store.schedules.find(cursor=ids[3], limit=2)] == ids[2:0:-1]
    assert [each.id for each in store.schedules.find(1)] == [ids[3], ids[1]]
    assert [each.id for each in store.schedules.find(status=ScheduleStatus.ONLINE)] == [ids[1]]
    assert [each.id for each in store.schedules.find(type_code="manual")] == [ids[4]]
    assert store.schedules.find(1, status=ScheduleStatus.ONLINE, type_code="manual") == []


def test_another_tenants_schedule_is_as_absent_as_one_that_never_was(store):
    """Spec: B11"""
    made = online(store, tenant_id=7)
    room = store.schedules
    acts = [
        room.get, room.logs, lambda i, tenant_id: room.trigger(i, tenant_id=tenant_id),
        lambda i, tenant_id: room.online(i, tenant_id=tenant_id),
        lambda i, tenant_id: room.offline(i, tenant_id=tenant_id),
        lambda i, tenant_id: room.remove(i, tenant_id=tenant_id),
        lambda i, tenant_id: room.put(i, new(), tenant_id=tenant_id),
    ]  # fmt: skip
    for act in acts:
        with pytest.raises(NotFound):
            act(made.id, tenant_id=8)
    assert room.get(made.id, 7) == made


def test_a_type_that_was_edited_is_fired_in_its_new_lane(store, clock):
    """Spec: B5, B9"""
    online(store)
    tick(store, clock)
    store.types.put(TaskType("plain", lane="elsewhere"), edited=True)
    tick(store, clock)
    assert [task.lane for task in store.tasks.find().items] == ["elsewhere", "default"]
    assert store.tasks.submit(NewTask("plain")).created
