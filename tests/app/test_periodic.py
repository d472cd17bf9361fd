"""`@app.periodic`: a program's schedules, online from its start, and people's once they touched them."""

from datetime import UTC, datetime

import pytest

from headgate import Headgate, Invalid
from headgate.core.cron import Missed, Overlap
from headgate.core.schedule import LogMode, ScheduleStatus
from headgate.core.states import State
from headgate.testing import sandbox
from tests.schedules import new

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def tidy(shelf: int = 1) -> int:
    return shelf


def dust() -> None: ...


def schedules(app: Headgate):
    return app.store.schedules.find()[::-1]


def test_above_a_task_or_below_it_its_schedule_is_online_when_the_program_starts(app):
    """Spec: B9"""
    app.periodic("*/5 * * * *", timezone="Asia/Shanghai")(app.task(code="above")(tidy))
    app.task(code="below")(app.periodic("0 3 * * *")(dust))
    found = [
        (each.definition.code, each.definition.cron_expressions, each.definition.timezone, each.status)
        for each in schedules(app)
    ]
    assert found == [
        ("above", "*/5 * * * *", "Asia/Shanghai", ScheduleStatus.ONLINE),
        ("below", "0 3 * * *", "UTC", ScheduleStatus.ONLINE),
    ]


def test_what_it_says_is_kept(app):
    """Spec: B9, B10"""
    task = app.task(mutex="shelf:{shelf}", priority=7)(tidy)
    app.periodic("0 4 * * *", arguments={"shelf": 3}, code="c", missed="all", overlap="skip", log="none")(task)
    [made] = schedules(app)
    assert made.definition.task.ext == '{"shelf":3}'
    made_by_it = app.store.tasks.get(app.store.schedules.trigger(made.id).task_id)
    assert (made_by_it.mutex, made_by_it.priority) == ("shelf:3", 7)
    assert (made.definition.missed, made.definition.overlap, made.definition.log) == (
        Missed.ALL,
        Overlap.SKIP,
        LogMode.NONE,
    )


def test_one_task_may_have_several_schedules_each_with_its_code_and_options(app):
    """Spec: B9"""
    task = app.task(tidy)
    app.periodic("0 4 * * *")(task)
    app.periodic("0 5 * * *", code="late")(task.using(priority=9, tenant_id=7))
    assert [(each.definition.code, each.definition.task.priority, each.tenant_id) for each in schedules(app)] == [
        ("tidy", None, 0), ("late", 9, 7),
    ]  # fmt: skip


def test_a_program_that_starts_again_changes_nothing_but_what_it_says_otherwise(app):
    """Spec: B9"""
    app.periodic("0 4 * * *")(app.task(tidy))
    [first] = schedules(app)
    app.close()
    assert schedules(app) == [first]
    again = Headgate(settings=app._settings)
    again.periodic("0 6 * * *")(again.task(tidy))
    [changed] = schedules(again)
    again.close()
    assert (changed.id, changed.definition.cron_expressions) == (first.id, "0 6 * * *")


def test_what_a_person_edited_or_took_offline_stays_so(app):
    """Spec: B9"""
    app.periodic("0 4 * * *")(app.task(tidy))
    app.periodic("0 5 * * *", code="late")(app.task(code="other")(dust))
    tidied, late = schedules(app)
    app.store.schedules.offline(tidied.id)
    app.store.schedules.put(late.id, new("0 9 * * *", "other"))
    app.close()
    tidied, late = schedules(app)
    assert (tidied.status, late.definition.cron_expressions, late.status) == (
        ScheduleStatus.OFFLINE,
        "0 9 * * *",
        ScheduleStatus.ONLINE,
    )


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"cron": "* * *"}, "not a cron expression"), ({"timezone": "Mars"}, "no time zone"),
        ({"missed": "sometimes"}, "missed must be one of"), ({"overlap": "never"}, "overlap must be one of"),
        ({"log": "all"}, "log must be one of"), ({"arguments": {"shelf": "x"}}, "tidy: argument shelf: "),
        ({"arguments": {"room": 1}}, "room"), ({"code": ""}, "code is empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_where_it_is_declared(app, wrong, why):
    """Spec: B9"""
    with pytest.raises(Invalid, match=why):
        app.periodic(**{"cron": "* * * * *"} | wrong)(app.task(tidy))


def test_a_function_that_is_no_task_is_said_to_be_none_at_the_start(app):
    """Spec: B9"""
    app.periodic("0 4 * * *")(tidy)
    with pytest.raises(Invalid, match=r"add @app\.task"):
        _ = app.store


def test_a_function_that_is_several_tasks_must_say_which(app):
    """Spec: B9"""
    app.periodic("0 4 * * *")(tidy)
    app.task(code="a")(tidy)
    app.task(code="b")(tidy)
    with pytest.raises(Invalid, match=r"more than one task \(a, b\)"):
        _ = app.store


def test_two_schedules_of_one_code_are_refused(app):
    """Spec: B9"""
    task = app.task(tidy)
    app.periodic("0 4 * * *")(task)
    app.periodic("0 5 * * *")(task)
    with pytest.raises(Invalid, match="two schedules have the code tidy"):
        _ = app.store


def test_in_a_sandbox_time_that_goes_by_fires_schedules(app):
    """Spec: B9, X5"""
    app.periodic("*/20 * * * *")(app.task(tidy))
    with sandbox(app, now=START) as box:
        assert box.drain() == []
        ran = box.drain(through=3600)
        assert [(one.type, one.status) for one in ran] == [("tidy", State.SUCCEEDED)] * 3
        [schedule] = box.store.schedules.find()
        assert len(box.store.schedules.logs(schedule.id)) == 3
