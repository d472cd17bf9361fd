"""Keys out of a task's arguments: filled with JSON, and with nothing else."""

import pytest

from headgate.core.errors import Invalid
from headgate.core.task import NewTask, TaskType
from headgate.core.template import check_template, fill, names_in, required_names_in
from headgate.core.type_defaults import with_type_defaults


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("plain", "plain"),
        ("a:{number}", "a:7"),
        ("{number:03}", "007"),
        ("{number:{width}}", "   7"),
        ("{item.tags[1]}", "b"),
        ("{item[name]!r}", "'x'"),
        ("{nothing}/{yes}/{half}", "None/True/0.5"),
        ("{{{number}}}", "{7}"),
    ],
)
def test_a_template_is_filled_with_json(template, key):
    """Spec: D3"""
    arguments = {
        "number": 7, "width": 4, "item": {"tags": ["a", "b"], "name": "x"}, "nothing": None, "yes": True, "half": 0.5,
    }  # fmt: skip
    assert fill(template, arguments) == key


@pytest.mark.parametrize(
    "template",
    [
        "{text.__class__}", "{text.upper}", "{text[0]}", "{item.__class__.__init__.__globals__}", "{item.missing}",
        "{list[9]}", "{list.append}", "{other}", "{text:d}", "{number:999999999}", "{number:{huge}}",
        "{number:.999999}",
    ],
)  # fmt: skip
def test_what_is_not_in_the_json_cannot_be_reached_and_costs_nothing(template):
    """Spec: D3, B11"""
    with pytest.raises(Invalid, match="the key '"):
        fill(template, {"text": "x", "item": {}, "list": [1], "number": 7, "huge": 10**9})


@pytest.mark.parametrize("template", ["{", "}", "{}", "{:>3}", "{a!}", "{.a}", "{a[}"])
def test_what_is_no_template_is_refused_where_it_is_declared(template):
    """Spec: B5"""
    with pytest.raises(Invalid):
        TaskType("scan", mutex=template)


@pytest.mark.parametrize("template", ["{0}", "{0.a}", "{a:>30000000}", "{a:}{b:3}", "{a!r}", "{a!s:3}", "{a:{b}}", "{"])
def test_what_cannot_be_relied_on_to_fill_in_is_refused_where_it_is_said(template):
    """Spec: B5"""
    with pytest.raises(Invalid):
        check_template(template)


@pytest.mark.parametrize("template", ["plain", "a:{b}", "{a.b.c}", "{a.0}", "{a[b]}", "{{0}}{a}", "{订单}", "{a-b}"])
def test_a_template_may_name_arguments_and_what_is_in_them(template):
    """Spec: B5, D3"""
    check_template(template)


def test_a_template_names_its_arguments_and_those_of_its_formats():
    """Spec: D3"""
    assert names_in("a{page:{width}}b{item.tags[0]}{{no}}") == ["page", "width", "item"]


def test_a_task_s_own_value_goes_over_its_type_s():
    """Spec: D3, B5"""
    task_type = TaskType("scan", mutex="m:{n}", rate_key="r:{n}", unique_key="u:{n}", defaults={"n": 1})
    assert with_type_defaults(NewTask("scan"), task_type)[8:10] == ("m:1", "r:1")
    filled = with_type_defaults(NewTask("scan", '{"n": 2}', mutex="mine"), task_type)
    assert (filled.mutex, filled.rate_key, filled.unique_key) == ("mine", "r:2", "u:2")
    complete = NewTask("scan", "[1]", lane="default", category="", priority=5)
    assert with_type_defaults(complete, TaskType("scan")) is complete


def test_arguments_that_lack_what_a_template_names_are_refused():
    """Spec: B5"""
    for ext in ("{}", "[]", "null", '{"m": 1}'):
        with pytest.raises(Invalid, match="argument 'n' is missing"):
            with_type_defaults(NewTask("scan", ext), TaskType("scan", mutex="m:{n}"))


@pytest.mark.parametrize("arguments", [{}, {"id": None}, {"id": {"inner": None}}, {"id": {}}])
def test_a_key_of_an_argument_that_may_be_missing_is_none_without_it(arguments):
    """Spec: D3"""
    template = "a:{id.inner?}" if isinstance(arguments.get("id"), dict) else "a:{id?}"
    assert fill(template, arguments) is None
    assert (names_in(template), required_names_in(template)) == (["id"], [])
    check_template(template)


@pytest.mark.parametrize("template", ["{text}", "{text.inner}", "{many}{many}"])
def test_what_no_key_has_room_for_is_refused_in_few_words(template):
    """Spec: B5"""
    with pytest.raises(Invalid, match="the key '") as refused:
        fill(template, {"text": "x" * 10_000, "many": ["x"] * 10_000})
    assert len(str(refused.value)) < 255


def test_a_key_of_an_argument_that_may_be_missing_is_the_same_with_it():
    """Spec: D3"""
    task_type = TaskType("any", mutex="a:{id?}", unique_key="{id?}:{name}")
    new = with_type_defaults(NewTask("any", '{"id": 0, "name": "x"}'), task_type)
    assert (new.mutex, new.unique_key) == ("a:0", "0:x")
    assert required_names_in("{id?}:{name}") == ["name"]
