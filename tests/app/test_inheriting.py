"""A handler bound to a type of a pack, or of a person: what its decorator leaves unsaid is as they say."""

import logging
from dataclasses import replace

import pytest

from headgate import Headgate, exponential, fixed
from headgate.core.errors import Invalid
from headgate.core.task import TaskType
from headgate.core.task_types import edited
from headgate.pack import Pack
from headgate.pack_setup import set_up
from headgate.settings import Settings
from headgate.store.store import open_store
from tests.app.connections import plain
from tests.factories import sql

BASE = TaskType(
    "scan", lane="slow", timeout_seconds=300.0, retry=fixed(30, retries=2), mutex="film:{film}", priority=2
)  # fmt: skip


def scan(film: int = 7) -> None:
    """A task of the program's."""


def stranger(page: int) -> None:
    """Lacks what the pack's mutex is made of."""


@pytest.fixture
def start(url):
    """Start a program that has `scan` with these options; what holds of its type then."""
    programs: list[Headgate] = []

    def started(function=scan, packs=(), **options):
        for program in programs:
            program.close()
        programs.append(Headgate(settings=Settings(url=url)))
        programs[-1]._packs = tuple(packs)
        task = programs[-1].task(code="scan", **options)(function)
        return programs[-1].store.types.get("scan"), task

    yield started
    for program in programs:
        program.close()


def put_pack(url, **changes):
    """Start something else that has the pack on; what holds of its type then."""
    with open_store(url) as store:
        set_up(store, [a_pack(**changes)], {}, migrate=True)
        return store.types.get("scan")


def a_pack(**changes):
    return Pack(name="films", types=(replace(BASE, **changes),))


def test_what_the_decorator_leaves_unsaid_is_as_the_pack_says(url, start):
    """Spec: B5, X11"""
    put_pack(url)
    stored, _ = start()
    assert stored.kind == replace(BASE, defaults={"film": 7})
    stored, _ = start(timeout_seconds=9.0, retry=exponential(5, retries=1))
    assert stored.kind == replace(BASE, timeout_seconds=9.0, retry=exponential(5, retries=1), defaults={"film": 7})
    assert start(mutex=None)[0].kind == replace(BASE, mutex=None)


def test_what_the_decorator_says_no_more_is_as_the_pack_says_again(url, start):
    """Spec: B5, X11"""
    put_pack(url)
    assert start(timeout_seconds=9.0, priority=9)[0].kind.timeout_seconds == 9
    stored, _ = start(priority=9)
    assert (stored.kind.timeout_seconds, stored.kind.priority) == (300, 9)
    assert start()[0].kind.priority == 2


def test_a_program_that_starts_again_still_inherits_and_writes_nothing(url, start, caplog):
    """Spec: B5, X11"""
    put_pack(url)
    with caplog.at_level(logging.INFO, logger="headgate"):
        first, _ = start(timeout_seconds=9.0)
        before = sql(url, "SELECT version FROM headgate_catalog"), sql(url, "SELECT count(*) FROM headgate_task_event")
        assert start(timeout_seconds=9.0)[0] == first
    after = sql(url, "SELECT version FROM headgate_catalog"), sql(url, "SELECT count(*) FROM headgate_task_event")
    assert (before, "type scan" in caplog.text) == (after, False)


def test_a_registration_without_a_pack_is_replaced_whole(start):
    """Spec: B5"""
    start(timeout_seconds=9.0, mutex="film:{film}", need_manual=True)
    stored, _ = start(need_manual=True)
    assert stored.kind == TaskType("scan", need_manual=True)


def test_a_type_follows_its_pack_but_for_what_a_program_says_over_it(url, start):
    """Spec: B5, X11"""
    put_pack(url)
    start(timeout_seconds=9.0)
    later = put_pack(url, timeout_seconds=600.0, priority=4)
    assert (later.kind.timeout_seconds, later.kind.priority) == (9, 4)
    assert later.kind.declared_by == "tests.app.test_inheriting:scan"
    assert start()[0].kind.timeout_seconds == 600


def test_a_pack_that_comes_after_the_program_is_inherited_from(url, start):
    """Spec: B5, X11"""
    assert start(priority=9)[0].kind.timeout_seconds == 1800
    stored = put_pack(url)
    assert (stored.kind.timeout_seconds, stored.kind.mutex, stored.kind.priority) == (300, "film:{film}", 9)
    assert start(priority=9)[0].kind.timeout_seconds == 300


def test_defaults_follow_the_pack_and_those_of_the_function_go_before_them(url, start):
    """Spec: B5, X11"""
    put_pack(url, rate_key="{region}", defaults={"film": 1, "region": "eu"})
    assert start()[0].kind.defaults == {"film": 7, "region": "eu"}
    assert put_pack(url, rate_key="{region}", defaults={"region": "us"}).kind.defaults == {"film": 7, "region": "us"}


def test_the_mutex_of_the_pack_holds_for_what_the_program_submits(url, start):
    """Spec: A10, X11"""
    put_pack(url)
    _, task = start()
    assert task.submit_sync(3).record_sync().mutex == "film:3"
    record = task.submit_sync().record_sync()
    assert (record.mutex, record.lane, record.priority) == ("film:7", "slow", 2)


def test_a_function_that_lacks_what_an_inherited_key_takes_is_refused_and_nothing_changes(url, start):
    """Spec: A10, X11"""
    before = put_pack(url)
    with pytest.raises(Invalid, match=r"stranger inherits type scan of pack films.*'film:\{film\}' names 'film'"):
        start(stranger)
    with open_store(url) as store:
        assert store.types.get("scan") == before
    assert start(stranger, mutex="page:{page}")[0].kind.mutex == "page:{page}"


def test_a_first_submit_in_a_transaction_of_the_callers_inherits_from_the_packs_of_the_program(tmp_path):
    """Spec: X1, X11"""
    url = f"sqlite:///{tmp_path}/store.db"
    Headgate(url).store.close()
    app = Headgate(url)
    app._packs = (a_pack(),)
    task = app.task(timeout_seconds=9.0)(scan)
    with plain(url) as connection:
        made = app.submit_in(connection, task.call(3))
        connection.commit()
    assert made.record_sync().mutex == "film:3"
    stored = app.store.types.get("scan")
    assert stored.kind == replace(BASE, timeout_seconds=9.0, defaults={"film": 7})
    assert stored.base == BASE
    app.close()


def test_a_type_that_a_person_made_holds_whole_and_a_decorator_that_says_nothing_is_not_told(url, start, caplog):
    """Spec: B5"""
    with open_store(url) as store:
        store.types.edit("scan", lambda before: replace(BASE))
    with caplog.at_level(logging.INFO, logger="headgate"):
        stored, task = start()
    assert (stored.kind, stored.edited, "type scan" in caplog.text) == (BASE, True, False)
    assert task.submit_sync(3).record_sync().mutex == "film:3"
    with caplog.at_level(logging.INFO, logger="headgate"):
        stored, _ = start(timeout_seconds=9.0)
    assert stored.kind == BASE
    assert (
        "type scan was edited by a person: the declaration of tests.app.test_inheriting:scan does not apply"
        in caplog.text
    )


def test_an_edit_of_a_pack_s_type_stands_above_the_pack_and_the_program(url, start):
    """Spec: B5, X11"""
    put_pack(url)
    with open_store(url) as store:
        store.types.edit("scan", lambda before: edited(before or BASE, {"timeout": 1}))
    assert start(timeout_seconds=9.0)[0].kind.timeout_seconds == 60
    assert put_pack(url, timeout_seconds=600.0).kind.timeout_seconds == 60


def test_an_edit_that_does_not_fit_the_function_is_told_and_the_program_starts(url, start, caplog):
    """Spec: B5"""
    with open_store(url) as store:
        store.types.edit("scan", lambda before: replace(BASE))
    start(stranger)
    [warning] = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert "type scan was edited by a person and does not match tests.app.test_inheriting:stranger" in warning
    assert "'film:{film}' names 'film', which is not one of its parameters" in warning
