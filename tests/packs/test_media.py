"""The media pack behind the door: a store keeps what it had, and without the pack there is nothing of it."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest

from headgate import Headgate, fixed
from headgate.core.errors import Invalid
from headgate.core.task import TaskType
from headgate.pack import EventField, Lane, Pack, Resource, find_packs, first_capacity, read_settings
from headgate.pack_setup import set_up
from headgate.packs import Tasks
from headgate.packs.media.types import REQUESTS, TYPES, UPKEEPS
from headgate.settings import Settings
from headgate.store.store import open_store
from headgate.testing import sandbox

MEDIA = find_packs(["media"])


@dataclass(frozen=True)
class Plain:
    plain_seconds: float = 1.5
    plain_name: str = "x"


@pytest.fixture
def store(url):
    with open_store(url) as opened:
        yield opened


def capacities(store):
    return {lane.name: lane.capacity for lane in store.lanes.all() if lane.name != "default"}


def test_a_store_from_before_packs_keeps_its_types_and_lanes(store):
    """Spec: X11, C2"""
    own = TaskType("download", lane="requires_cookie", timeout_seconds=7.0)
    store.types.put(own)
    store.lanes.set_capacity("requires_cookie", 5)
    store.lanes.set_capacity("no_cookie", None)  # a person took the limit away
    store.events.record("request_lanes_made", "requires_cookie, no_cookie")
    for _ in range(2):
        set_up(store, MEDIA, {}, migrate=True)
        assert capacities(store) == {"requires_cookie": 5, "no_cookie": None}
        assert store.types.by_code()["download"] == own
        assert store.types.by_code().keys() == {kind.code for kind in TYPES}


def test_upkeep_starts_after_what_people_wait_for(store):
    """Spec: C2"""
    set_up(store, MEDIA, {}, migrate=True)
    known = store.types.by_code()
    assert {known[kind.code].priority for kind in UPKEEPS} == {8}
    assert {known[kind.code].priority for kind in REQUESTS} == {5}


def test_a_lane_that_a_later_version_of_a_pack_brings_gets_its_capacity(store):
    """Spec: X11"""
    first = Pack(name="plain", lanes=(Lane("a", 1),), resources=(Resource("r", 3),))
    set_up(store, [first], {}, migrate=True)
    store.lanes.set_capacity("a", None)
    store.resources.set("r", 9)
    second = Pack(name="plain", lanes=(Lane("a", 1), Lane("b", 2), Lane("c")), resources=(Resource("r", 3),))
    set_up(store, [second], {}, migrate=True)
    assert capacities(store) == {"a": None, "b": 2, "c": None}
    assert {limit.name: limit.capacity for limit in store.resources.all()}["r"] == 9


def test_a_type_follows_its_pack_until_a_person_or_a_program_says_otherwise(store):
    """Spec: X11"""

    def timeouts(seconds):
        types = tuple(TaskType(code, timeout_seconds=seconds) for code in ("free", "edited", "declared"))
        set_up(store, [Pack(name="plain", types=types)], {}, migrate=True)
        return {code: kind.timeout_seconds for code, kind in store.types.by_code().items()}

    assert timeouts(1) == {"free": 1, "edited": 1, "declared": 1}
    store.types.put(TaskType("edited", timeout_seconds=7), edited=True)
    store.types.put(TaskType("declared", timeout_seconds=8, declared_by="shop:declared"))
    assert timeouts(2) == {"free": 2, "edited": 7, "declared": 8}


def test_a_pack_is_called_at_each_start_and_makes_its_types_of_its_settings(store):
    """Spec: X11"""
    starts = []
    pack = Pack(
        name="plain",
        types=(TaskType("tuned"),),
        settings=Plain,
        tune=lambda kind, settings: replace(kind, timeout_seconds=settings.plain_seconds),
        at_start=lambda: starts.append(len(starts)),
    )
    for seconds in ("7", "8"):
        set_up(store, [pack], {"PLAIN_SECONDS": seconds}, migrate=True)
        assert store.types.by_code()["tuned"].timeout_seconds == float(seconds)
    assert starts == [0, 1]


def test_a_plain_handler_of_a_built_in_type_has_its_time_and_its_retries(store, url):
    """Spec: A3, X11"""
    set_up(store, MEDIA, {}, migrate=True)
    for _ in range(2):  # the second time it is a program that starts again
        app = Headgate(settings=Settings(url=url))

        @app.task
        def scan(folder: str) -> None: ...

        assert scan.submit_sync("a").record_sync().category == "upkeep"
        held = app.store.types.by_code()["scan"]
        assert (held.timeout_seconds, held.retry) == (300, fixed(30, retries=2))
        app.close()


def test_a_program_turns_a_pack_on_by_its_name():
    """Spec: X11"""
    app = Headgate("sqlite://", packs=["media"])
    assert app._settings.pack_names == ("media",)
    with sandbox(app) as box:
        assert box.store.types.by_code().keys() == {kind.code for kind in TYPES}
        assert capacities(box.store) == {"requires_cookie": 1, "no_cookie": 2}
    with sandbox(Headgate("sqlite://")) as box:
        assert box.store.types.by_code() == {}
        assert capacities(box.store) == {}


def test_what_is_configured_and_what_the_program_says_are_both_on():
    """Spec: X11"""
    assert Headgate(settings=Settings(url="sqlite://", packs=" media ,media"))._settings.packs == "media"
    with pytest.raises(Invalid, match=r"^no pack 'medai'; installed are .*media.*; did you mean 'media'\?$"):
        Headgate("sqlite://", packs=["medai"])


@pytest.mark.parametrize("name", ["", "Media", "my-pack", "a_b", "1st", "x" * 32, "task", "pack"])
def test_a_name_that_no_table_could_have_is_refused(name):
    """Spec: X11"""
    with pytest.raises(Invalid, match=r"^pack "):
        Pack(name=name)


def test_an_argument_of_another_type_is_no_field():
    """Spec: X11"""
    field = EventField("shelf", int)
    assert field.value_in('{"shelf": 7, "more": [1]}') == 7
    assert [field.value_in(ext) for ext in ("{}", '{"shelf": "7"}', "[]", "nonsense", '{"shelf": null}')] == [None] * 5
    pack = Pack(name="plain", lanes=(Lane("a"),), types=(TaskType("t"),), fields=(field,))
    assert pack.fields_of("t", "default", '{"shelf": 7}') == {"shelf": 7}
    assert pack.fields_of("other", "a", "{}") == {"shelf": None}
    assert pack.fields_of("other", "default", '{"shelf": 7}') == {}


def test_settings_are_read_from_dotenv_too_and_an_empty_variable_is_none(tmp_path, monkeypatch):
    """Spec: X11"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("PLAIN_SECONDS=3\nPLAIN_NAME=y\n")
    monkeypatch.setenv("PLAIN_NAME", "z")
    assert read_settings(Plain) == Plain(3.0, "z")
    assert read_settings(Plain, {"PLAIN_SECONDS": ""}) == Plain()
    with pytest.raises(Invalid, match=r"^PLAIN_SECONDS: Expected `float`"):
        read_settings(Plain, {"PLAIN_SECONDS": "soon"})
    assert first_capacity(Lane("a", 4, variable="A"), {"A": " 7 "}) == 7


def test_the_schedules_of_a_pack_are_the_programs_that_turns_it_on():
    """Spec: X11"""
    tasks = Tasks()

    @tasks.periodic("0 3 * * *")
    @tasks.handler(TaskType("nightly", timeout_seconds=5))
    def nightly() -> str:
        return "done"

    app = Headgate("sqlite://")
    app._packs = (Pack(name="plain", types=(nightly._handler.type,)),)
    app._take_over(tasks)
    with sandbox(app, now=datetime(2026, 3, 1, 2, tzinfo=UTC)) as box:
        assert [(ran.type, ran.status) for ran in box.drain(through=7200)] == [("nightly", "succeeded")]
        task = nightly.submit_sync()  # through the program, and so into its store
        assert box.store.tasks.get(task.id).type == "nightly"
