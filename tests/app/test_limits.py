"""Limits that ship with a program and its settings."""

import logging

import pytest

import headgate
from headgate.app import Tasks
from headgate.core.errors import Invalid
from headgate.core.limits import Rate
from headgate.settings import Settings, load


def limits(app):
    lanes = {lane.name: lane.capacity for lane in app.store.lanes.all()}
    resources = {resource.name: resource.capacity for resource in app.store.resources.all()}
    return lanes | resources | {each.name: each.limit for each in app.store.rate_limits.all()}


def declare(app):
    app.lane("mail", capacity=5)
    app.resource("gpu", capacity=2)
    app.rate_limit("key:openai", rate=5, burst=10)
    app.rate_limit("type:scan", rate=None)


def test_limits_ship_with_the_program_and_a_persons_edit_stands(url, caplog):
    """Spec: X10, D8"""
    app = headgate.Headgate(url)
    declare(app)
    wanted = {"mail": 5, "gpu": 2, "key:openai": Rate(5, 10), "type:scan": None}
    assert limits(app).items() >= wanted.items()
    app.store.lanes.set_capacity("mail", 9)
    app.store.rate_limits.set("key:openai", None)
    app.close()

    again = headgate.Headgate(url)
    declare(again)
    with caplog.at_level(logging.INFO, "headgate"):
        assert limits(again).items() >= (wanted | {"mail": 9, "key:openai": None}).items()
    told = [record.getMessage() for record in caplog.records if "not applied" in record.getMessage()]
    assert sorted(told) == [
        "limit not applied: limit='lane mail' declared_by=program set_by=person",
        "limit not applied: limit='rate limit key:openai' declared_by=program set_by=person",
    ]
    again.close()


def test_a_limit_declared_after_the_store_was_opened_holds_too(url):
    """Spec: X10"""
    app = headgate.Headgate(url)
    assert "late" not in limits(app)
    app.lane("late", capacity=1)
    assert limits(app)["late"] == 1
    app.close()


def test_settings_go_before_the_program(url):
    """Spec: D8, X10"""
    settings = Settings(url=url, lanes="mail=7, media=none", resources="gpu=1", rate_limits="key:*=2/4,type:scan=none")
    app = headgate.Headgate(settings=settings)
    declare(app)
    wanted = {"mail": 7, "media": None, "gpu": 1, "key:openai": Rate(5, 10), "key:*": Rate(2, 4), "type:scan": None}
    assert limits(app).items() >= wanted.items()
    assert {each.name: each.source for each in app.store.rate_limits.all()} == {
        "key:*": "settings", "key:openai": "program", "type:scan": "settings",
    }  # fmt: skip
    app.close()


def test_what_settings_say_stands_when_the_program_starts_elsewhere_without_them(url):
    """Spec: D8, X10"""
    for settings in (Settings(url=url, lanes="mail=2"), Settings(url=url)):
        app = headgate.Headgate(settings=settings)
        declare(app)
        assert limits(app)["mail"] == 2
        app.close()


def test_limits_declared_on_the_tasks_of_a_pack_are_the_programs_and_its_own_go_before_them(url):
    """Spec: X10, X11"""
    tasks = Tasks()
    declare(tasks)
    app = headgate.Headgate(url)
    app.lane("mail", capacity=8)
    app._take_over(tasks)
    wanted = {"mail": 8, "gpu": 2, "key:openai": Rate(5, 10), "type:scan": None}
    assert limits(app).items() >= wanted.items()
    app.close()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("lanes", "mail", "lanes: 'mail' is not NAME=CAPACITY"),
        ("lanes", "mail=many", "lanes: 'mail=many' is not NAME=CAPACITY"),
        ("lanes", "mail=-1", "a capacity must be a whole number"),
        ("resources", "key:x=1", "is the name of a rate limit"),
        ("rate_limits", "key:openai=5", "rate_limits: 'key:openai=5' is not NAME=RATE/BURST"),
        ("rate_limits", "openai=5/10", "a rate limit is named lane:NAME, type:CODE or key:NAME"),
        ("rate_limits", "key:openai=0/10", "a rate limit needs a rate above 0"),
        ("rate_limits", "key:openai=nan/10", "a rate limit needs a rate above 0"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_by_its_name(tmp_path, name, text, reason):
    """Spec: D8"""
    with pytest.raises(Invalid, match=reason):
        load(folder=tmp_path, environment={f"HEADGATE_{name.upper()}": text})


def test_a_declaration_that_cannot_be_meant_is_refused_where_it_stands(url):
    """Spec: X10"""
    app = headgate.Headgate(url)
    for wrong in (
        lambda: app.lane("*", capacity=1),
        lambda: app.lane("mail", capacity=-1),
        lambda: app.resource("key:x", capacity=1),
        lambda: app.rate_limit("openai", rate=5, burst=10),
        lambda: app.rate_limit("key:openai", rate=5),
        lambda: app.rate_limit("key:openai", rate=0, burst=10),
    ):
        with pytest.raises(Invalid):
            wrong()
