"""What no store could keep is refused with the field's name, and takes nothing else down with it."""

import json

import pytest

from headgate.core.errors import Invalid, UnknownType
from headgate.core.machine import Returned
from headgate.core.states import State
from headgate.core.task import NewTask, TaskType
from headgate.store.claim.contract import Outcome
from headgate.store.reading.lists import Filter
from headgate.store.tasks.idempotency import Idempotency
from tests.factories import record, running, settle, start, submit, together

NAMES = ("type", "name", "lane", "category", "mutex", "rate_key", "agent_id", "unique_key", "correlation_id")
BAD_NAMES = {"NUL": "a\0b", "surrogate": "a\ud800", "long": "x" * 256, "a number": 5}
BAD_JSON = {
    "NUL": '"a\0b"',
    "surrogate": '"\ud800"',
    "not JSON": "{'a': 1}",
    "nothing": "",
    "not a number": "NaN",
    "infinite": "1e999",
    "oversized": json.dumps("x" * 256 * 1024),
    "deep": "[" * 65 + "]" * 65,
    "very deep": "[" * 100_000 + "]" * 100_000,
    "no text": {"a": 1},
}
BAD_FIELDS = [
    *((name, text) for name in NAMES for text in BAD_NAMES.values()),
    *(("ext", text) for text in BAD_JSON.values()),
    *((name, number) for name in ("tenant_id", "creator", "priority", "parent_id") for number in (1 << 63, 1.5, True)),
    ("max_error_count", -1),
    ("timeout_seconds", 0),
    ("timeout_seconds", float("nan")),
    ("delay_seconds", -1),
    ("delay_seconds", float("inf")),
]


def everything(store):
    return store.tasks.find().items, store.lanes.all(), store.rate_limits.all(), store.events.last()


@pytest.mark.parametrize(("name", "value"), BAD_FIELDS)
def test_a_bad_field_is_refused_by_name_and_nothing_of_its_batch_is_made(store, name, value):
    """Spec: B1"""
    before = everything(store)
    bad = NewTask(**{"type": "plain", name: value})
    with pytest.raises(Invalid, match=name) as refused:
        store.tasks.submit_many([NewTask("plain", lane="fresh"), bad])
    assert refused.value.status == 422
    assert everything(store) == before


@pytest.mark.parametrize(("code", "near"), [("plian", "plain"), ("Manual", "manual"), ("zzz", None)])
def test_an_unknown_type_is_refused_and_the_near_ones_are_named(store, code, near):
    """Spec: B5"""
    before = everything(store)
    with pytest.raises(UnknownType) as refused:
        store.tasks.submit_many([NewTask("plain", lane="fresh", rate_key="fresh"), NewTask(code)])
    assert ("did you mean" in str(refused.value)) is (near is not None)
    assert near is None or near in str(refused.value)
    assert everything(store) == before


def test_bad_input_beside_good_fails_alone_when_commits_are_shared(store):
    calls = [NewTask("plain", name=str(n)) if n % 2 else NewTask("plain", ext="\0") for n in range(10)]
    results = together(*[lambda new=new: store.tasks.submit(new) for new in calls])
    assert [isinstance(result, Invalid) for result in results] == [True, False] * 5
    assert len(store.tasks.find().items) == 5


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON)
@pytest.mark.parametrize(
    ("what", "report"),
    [
        ("progress", lambda store, e, text: store.executions.progress(e.id, e.exec_id, text)),
        ("checkpoint", lambda store, e, text: store.executions.save_checkpoint(e.id, e.exec_id, "page", text)),
    ],
    ids=["progress", "checkpoint"],
)
def test_a_bad_report_is_refused_and_changes_nothing(store, what, report, text):
    """Spec: D3"""
    execution = running(store)
    before = record(store, execution.id)
    with pytest.raises(Invalid, match=what):
        report(store, execution, text)
    assert record(store, execution.id) == before


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=BAD_JSON)
def test_a_bad_result_is_refused_and_nothing_of_its_batch_is_written(store, text):
    """Spec: B1"""
    submit(store), submit(store)
    one, two = start(store, 2)
    before = record(store, one.id), record(store, two.id)
    with pytest.raises(Invalid, match="result"):
        store.executions.settle([Outcome(one, Returned()), Outcome(two, Returned(text))])
    assert (record(store, one.id), record(store, two.id)) == before
    assert settle(store, two, Returned()) is State.SUCCEEDED


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_bad_checkpoint_name_is_refused_and_changes_nothing(store, name):
    """Spec: D3"""
    execution = running(store)
    with pytest.raises(Invalid):
        store.executions.save_checkpoint(execution.id, execution.exec_id, name, "1")
    assert store.executions.checkpoints(execution.id) == {}


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("a\0b", "a\N{REPLACEMENT CHARACTER}b"),
        ("a\ud800b", "a?b"),
        ("x" * 20_000, "x" * 16 * 1024),
    ],
    ids=["NUL", "surrogate", "long"],
)
def test_a_log_line_no_store_could_keep_is_kept_as_far_as_it_can_be(store, said, kept):
    """Spec: A12"""
    execution = running(store)
    store.executions.add_log(execution.id, execution.exec_id, [("info", "before"), ("info", said), ("info", "after")])
    assert [line.message for line in store.executions.log(execution.id)] == ["before", kept, "after"]


@pytest.mark.parametrize("text", ["a\0b", "a\ud800"], ids=["NUL", "surrogate"])
@pytest.mark.parametrize(
    "act",
    [
        lambda s, text: s.lanes.set_capacity(text, 1),
        lambda s, text: s.lanes.pause(text),
        lambda s, text: s.resources.set(text, 1),
        lambda s, text: s.workers.register(text),
        lambda s, text: s.workers.register("w", types=[text]),
        lambda s, text: s.workers.register("w", agent_id=text),
        lambda s, text: s.types.put(TaskType("fine", name=text)),
        lambda s, text: s.types.put(TaskType("fine", category=text)),
        lambda s, text: s.tasks.submit(NewTask("plain"), once=Idempotency(text, "hash")),
        lambda s, text: s.tasks.submit(NewTask("plain"), once=Idempotency("key", text)),
    ],
    ids=["lane", "pause", "resource", "worker", "types", "agent", "type name", "category", "key", "hash"],
)
def test_a_name_no_store_could_keep_is_refused_wherever_it_is_given(store, act, text):
    """Spec: B1"""
    before = everything(store), store.types.by_code(), store.workers.all(), store.resources.all()
    with pytest.raises(Invalid):
        act(store, text)
    assert (everything(store), store.types.by_code(), store.workers.all(), store.resources.all()) == before


@pytest.mark.parametrize("name", ["type", "lane", "category", "mutex", "agent_id", "correlation_id", "q"])
@pytest.mark.parametrize("text", ["plain\0", "\0", "\ud800"], ids=["a NUL behind", "NUL", "surrogate"])
def test_a_filter_for_what_no_store_could_keep_finds_nothing_or_is_refused(store, name, text):
    """Spec: A1"""
    submit(store, lane="plain", category="plain", mutex="plain", agent_id="plain", correlation_id="plain", name="plain")
    try:
        found = store.tasks.find(Filter(**{name: text})).items
    except Invalid:
        found = []
    assert found == []


@pytest.mark.parametrize("text", ["why\0not", "why\ud800not"], ids=["NUL", "surrogate"])
def test_a_reason_or_remark_is_kept_as_far_as_it_can_be(store, text):
    """Spec: A12"""
    task = store.tasks.cancel(submit(store).id, text)
    assert task.remark in ("why\N{REPLACEMENT CHARACTER}not", "why?not")
