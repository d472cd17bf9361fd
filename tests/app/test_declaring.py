"""A function becomes a type of task, or it is said at once why it cannot."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from json import JSONDecodeError
from typing import Any

import pytest

from headgate import Headgate, Retry, Snooze, exponential
from headgate.core.errors import Invalid
from headgate.registry import Isolation
from tests.app import elsewhere


@pytest.fixture
def app() -> Headgate:
    """A program whose store is never asked for."""
    return Headgate("sqlite://")


def test_a_task_is_still_the_function_it_was(app):
    """Spec: D3"""
    fetch, count = app.task(elsewhere.fetch), app.task(elsewhere.count)
    assert count(7) == 7
    assert asyncio.run(fetch(3)) == {"page": 3}
    assert (fetch.__name__, fetch.__doc__, fetch.__module__) == ("fetch", "Fetch a page.", "tests.app.elsewhere")


def test_a_tasks_code_is_the_functions_name_unless_it_is_given(app):
    """Spec: D3"""
    assert app.task(elsewhere.count)._handler.code == "count"
    assert app.task(code="number")(elsewhere.count)._handler.code == "number"
    assert [handler.code for handler in app._registry] == ["count", "number"]


def test_a_process_of_its_own_may_use_500_megabytes_unless_it_is_said_otherwise(app):
    """Spec: A11"""
    assert app.task(isolation="process")(elsewhere.count)._handler.memory_megabytes == 500


def test_what_is_declared_is_what_the_type_says(app):
    """Spec: D3, B5"""
    policy = exponential(60, cap=300, retries=3)
    declared = app.task(
        name="Fetch", category="web", lane="net", uses=["disk"], retry=policy, timeout_seconds=9, need_manual=True,
        unknown_errors="fail", priority=2, memory_megabytes=64,
    )(elsewhere.fetch)  # fmt: skip
    rules = declared._handler.type
    assert (rules.name, rules.category, rules.lane) == ("Fetch", "web", "net")
    assert (rules.uses, rules.retry) == (("disk",), policy)
    assert (rules.timeout_seconds, rules.need_manual, rules.unknown_errors) == (9, True, "fail")
    assert (rules.priority, declared._handler.memory_megabytes) == (2, 64)


@pytest.mark.parametrize(
    ("function", "isolation", "runs"),
    [
        (elsewhere.fetch, None, Isolation.LOOP),
        (elsewhere.fetch, "loop", Isolation.LOOP),
        (elsewhere.fetch, "process", Isolation.PROCESS),
        (elsewhere.count, None, Isolation.THREAD),
        (elsewhere.count, "thread", Isolation.THREAD),
        (elsewhere.count, "process", Isolation.PROCESS),
    ],
)
def test_a_function_runs_where_its_kind_can(app, function, isolation, runs):
    """Spec: D3"""
    assert app.task(isolation=isolation)(function)._handler.isolation is runs


@pytest.mark.parametrize(
    ("function", "isolation", "message"),
    [
        (elsewhere.fetch, "thread", "isolation 'thread' is not for an async function"),
        (elsewhere.count, "loop", "isolation 'loop' is not for a function that is not async"),
        (elsewhere.count, "fork", "isolation must be one of loop, thread, process, not 'fork'"),
        (lambda: None, "process", "another process cannot import it"),
    ],
)
def test_a_function_is_not_run_where_it_cannot(app, function, isolation, message):
    """Spec: D3"""
    with pytest.raises(Invalid, match=message):
        app.task(code="x", isolation=isolation)(function)
    assert len(app._registry) == 0


class Robot:
    def greet(self, name: str) -> str:
        return name


def test_a_bound_method_is_a_function_with_fewer_parameters(app):
    """Spec: D3"""
    greet = app.task(Robot().greet)
    assert greet("Ada") == "Ada"
    assert greet.call("Ada")._new.ext == '{"name":"Ada"}'
    with pytest.raises(Invalid, match="another process cannot import it"):
        app.task(code="x", isolation="process")(Robot().greet)


def of_positions(page: int, /) -> None: ...
def of_many(*pages: int) -> None: ...
def of_any(**options: int) -> None: ...
def of_unknown(page: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821
def of_code(then: Callable[[], None]) -> None: ...
def of_objects(robots: dict[str, list[Robot]]) -> None: ...
def of_two_shapes(value: dict[str, int] | list[int] | tuple[int, int]) -> None: ...
def giving_an_object() -> Robot: ...  # type: ignore[empty-body]
def generating() -> Iterator[int]:
    yield 1


async def generating_later() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (of_positions, "page: int is not allowed: a task takes named parameters only"),
        (of_many, r"\*pages: int is not allowed"),
        (of_any, r"\*\*options: int is not allowed"),
        (of_unknown, "its annotations cannot be read: name 'Nowhere' is not defined"),
        (elsewhere.pay, "its annotations cannot be read: name 'Decimal' is not defined"),
        (of_code, "of_code: .*Callable"),
        (of_objects, "of_objects: a Robot cannot be created from JSON"),
        (of_two_shapes, "of_two_shapes: .*more than one array-like"),
        (giving_an_object, "giving_an_object: a Robot cannot be created from JSON"),
        (generating, "is a generator: a task returns one result"),
        (generating_later, "is a generator: a task returns one result"),
        (Robot.greet, "a task is a function, not a method"),
        (Robot, "is not a function"),
        (partial(elsewhere.count, 1), "is not a function"),
        (len, "is not a function"),
        ("count", "is not a function"),
    ],
)
def test_what_cannot_be_called_from_json_is_refused_when_it_is_declared(app, function, message):
    """Spec: D3"""
    with pytest.raises(Invalid, match=message):
        app.task(function)
    assert len(app._registry) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"code": ""}, "type is empty"),
        ({"code": "x" * 256}, "type is longer"),
        ({"lane": "*"}, "every lane"),
        ({"uses": ["a", "a"]}, "a resource twice"),
        ({"timeout_seconds": 0}, "timeout must be above 0"),
        ({"unknown_errors": "maybe"}, "'retry' or 'fail'"),
        ({"retry_on": [3]}, "retry_on: 3 is not an error class"),
        ({"fatal": ValueError}, "fatal must be a list of error classes"),
        ({"fatal": ["not a name"]}, "fatal: 'not a name' is not the name of an error class"),
        ({"retry_on": [KeyError], "fatal": ["KeyError"]}, "KeyError is in both retry_on and fatal"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"memory_megabytes": 0}, "memory_megabytes must be above 0"),
        (
            {"mutex": "{page:03}"},
            "mutex: '{page:03}' has {page:03}: a key uses an argument without conversion or format",
        ),
        ({"unique_key": "{0}"}, "a key refers to arguments by name"),
        ({"mutex": "page:{page}:{chapter}"}, "names 'chapter', which is not one of its parameters"),
        ({"rate_key": "{}"}, "names '', which is not an argument"),
        ({"mutex": "{page:{width}}"}, "a key uses an argument without conversion or format, {page}"),
        ({"mutex": "page:{page"}, "is not a template"),
    ],
)
def test_an_option_that_cannot_be_is_refused_when_it_is_declared(app, options, message):
    """Spec: D3"""
    with pytest.raises(Invalid, match=message):
        app.task(**options)(elsewhere.count)
    assert len(app._registry) == 0


def test_error_classes_are_kept_by_name(app):
    """Spec: A5"""

    class Local(Exception): ...

    app.task(retry_on=[KeyError, JSONDecodeError, Local], fatal=["shop.ApiError"])(elsewhere.count)
    rules = app.store.types.get("count").kind
    assert rules.retry_on == ("KeyError", "json.decoder.JSONDecodeError", "Local")
    assert rules.fatal == ("shop.ApiError",)


def test_an_option_that_there_is_not_is_an_error_of_the_program(app):
    """Spec: D3"""
    with pytest.raises(Invalid, match="no option 'prioritty'; did you mean 'priority'"):
        app.task(prioritty=1)(elsewhere.count)


def test_a_code_has_one_handler(app):
    """Spec: D3"""
    app.task(elsewhere.count)
    with pytest.raises(Invalid, match=r"two handlers for count: tests\.app\.elsewhere:count and .*:fetch"):
        app.task(code="count")(elsewhere.fetch)


def test_a_module_that_is_loaded_again_replaces_its_own_handler(app):
    """Spec: D3"""
    app.task(elsewhere.count)
    again = app.task(lane="other")(elsewhere.count)
    assert app._registry["count"] is again._handler


def test_what_a_handler_may_say_to_headgate_is_no_part_of_its_result(app):
    """Spec: D3"""

    def waits() -> dict[str, int] | Snooze | Retry: ...  # type: ignore[empty-body]
    def only_waits() -> Snooze | Retry: ...  # type: ignore[empty-body]
    def anything() -> Any: ...
    def unsaid(): ...

    results = [app.task(function)._handler.arguments.result for function in (waits, only_waits, anything, unsaid)]
    assert results == [dict[str, int], None, Any, Any]
