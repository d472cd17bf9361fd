"""Two programs that declare one type: the last one's word holds, and it is said that there are two."""

import logging

import pytest

from headgate import Headgate, fixed
from headgate.core.task_types import edited
from headgate.settings import Settings
from tests.app import elsewhere


async def fetch(page: int) -> None:
    """Another program's."""


@pytest.fixture
def declare(url):
    """Start a program that has this function for the type `fetch`."""
    opened = []

    def start(function, **options):
        app = Headgate(settings=Settings(url=url))
        opened.append(app)
        app.task(code="fetch", **options)(function)
        return app.store.types.get("fetch")

    yield start
    for app in opened:
        app.close()


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_who_declared_a_type_is_kept_with_it(declare):
    """Spec: B5"""
    stored = declare(elsewhere.fetch)
    assert (stored.kind.declared_by, stored.edited) == ("tests.app.elsewhere:fetch", False)


def test_two_programs_that_declare_a_type_differently_are_told_of(declare, caplog):
    """Spec: B5"""
    declare(elsewhere.fetch, retry=fixed(5, retries=1))
    assert warnings(caplog) == []
    stored = declare(fetch, retry=fixed(5, retries=2))
    assert (stored.kind.retry.retries, stored.kind.declared_by) == (2, "tests.app.test_two_programs:fetch")
    [warning] = warnings(caplog)
    assert "declared by tests.app.elsewhere:fetch with other rules" in warning
    assert "those of tests.app.test_two_programs:fetch apply now" in warning


def test_a_program_that_has_changed_its_mind_is_no_second_one(declare, caplog):
    """Spec: B5"""
    declare(elsewhere.fetch, timeout_seconds=60)
    assert declare(elsewhere.fetch, timeout_seconds=90).kind.timeout_seconds == 90
    assert warnings(caplog) == []


def test_a_program_that_says_the_same_again_says_nothing(declare, caplog):
    """Spec: B5"""
    with caplog.at_level(logging.INFO, logger="headgate"):
        declare(elsewhere.fetch, timeout_seconds=31)
        declare(elsewhere.fetch, timeout_seconds=31)
    assert "type fetch" not in caplog.text


def test_programs_that_declare_the_same_are_at_peace(declare, caplog):
    """Spec: B5"""
    declare(elsewhere.fetch)
    assert declare(fetch).kind.declared_by == "tests.app.elsewhere:fetch"
    assert warnings(caplog) == []


def test_a_script_is_the_same_program_as_the_module_it_is_imported_as(declare, caplog, monkeypatch):
    """Spec: B5"""
    declare(fetch, timeout_seconds=60)
    monkeypatch.setattr(fetch, "__module__", "__main__")
    assert declare(fetch, timeout_seconds=90).kind.declared_by == "__main__:fetch"
    assert warnings(caplog) == []


def test_what_a_person_edited_holds_and_the_program_says_so(declare, app, caplog):
    """Spec: B5"""
    declare(elsewhere.fetch, timeout_seconds=60)
    app.store.types.edit("fetch", lambda before: edited(before, {"timeout": 5}))
    with caplog.at_level(logging.INFO, logger="headgate"):
        stored = declare(elsewhere.fetch, timeout_seconds=90)
    assert (stored.kind.timeout_seconds, stored.edited) == (300, True)
    assert (
        "type fetch was edited by a person: the declaration of tests.app.elsewhere:fetch does not apply" in caplog.text
    )
    assert warnings(caplog) == []
