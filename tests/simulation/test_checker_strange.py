"""The checker judges whatever it is given, and never fails over it."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.broker.topology import DEAD, EVENTS, TASKS
from headgate.core.limits import Rate
from headgate.core.states import State
from headgate.simulation.checker import check
from headgate.simulation.checker_paths import transitions
from headgate.simulation.evidence import (
    Arrival,
    DeliveryRow,
    Evidence,
    Handover,
    LedgerEntry,
    MessageEntry,
    Receipt,
    Row,
    ScheduleLogLine,
    Submission,
    TaskRecord,
)

_ids = st.integers(1, 4)
_times = st.floats(0.0, 100.0) | st.sampled_from([float("nan"), float("inf"), -1.0])
_states = st.sampled_from([*map(str, State), "lost"])
_names = st.sampled_from(["a", "b"])
_kinds = st.sampled_from(
    [*sorted({kind for _, kind, _ in transitions()}), "refused", "capacity_changed", "rate_changed",
     "weight_changed", "?",
     "periodic_added", "periodic_changed", "ticks_missed", "submitted"]
)  # fmt: skip
_details = st.sampled_from(
    [
        None, "", "no JSON", "[]", "3", '{"lane": "*"}', '{"lane": 1, "capacity": "many"}',
        '{"resource": "a", "capacity": -1}', '{"name": "lane:a", "limit": {"rate": 0, "burst": "x"}}',
        '{"name": "lane:a", "limit": {"rate": 2, "burst": 1}}', '{"name": ["a"], "limit": [1]}',
        '{"periodic_task": 1, "cron_expressions": "* * * * *", "timezone": "UTC", "missed": "all", "next_tick":'
        ' "1970-01-01T00:01:00Z"}', '{"periodic_task": 1, "first": "1970-01-01T00:01:00Z", "until": "soon"}',
        '{"periodic_task": 1, "first": "1970-01-01T00:01:00Z", "until": "1970-01-01T00:03:00Z"}',
        '{"periodic_task": "x", "cron_expressions": 3, "timezone": "Mars", "missed": 1, "next_tick": 2}',
    ]
)  # fmt: skip
_rows = st.builds(
    Row, _ids, st.none() | _ids, st.integers(-1, 3), _times, _times, _kinds, st.none() | _states,
    st.none() | _states, _names | st.just("system:periodic"), st.none() | _names, _details,
)  # fmt: skip
_tasks = st.builds(
    TaskRecord, _ids, _ids, _names, _states, _names, st.none() | _names, st.none() | _names, st.none() | _ids,
    st.none() | _ids, _ids, _ids, st.none() | _names, st.none() | _ids, st.none() | _times, st.none() | _times,
    st.none() | _ids, st.none() | _names,
    st.sampled_from([None, "a", "periodic:", "periodic:1:by-hand", "periodic:1:1970-01-01T00:01:00Z"]),
)  # fmt: skip
_ticks = st.sampled_from([None, "1970-01-01T00:01:00Z", "?"])
_lines = st.builds(ScheduleLogLine, _times, _ids, _ticks, st.sampled_from(["executing", "success", "failure", "?"]),
                   st.none() | _ids, st.booleans())  # fmt: skip
_arrivals = st.builds(Arrival, _ids, _ticks, st.booleans())
_entries = st.builds(
    LedgerEntry, _times, st.sampled_from(["start", "effect", "end", "?"]), _ids, _names, _ids, st.booleans()
)
_answers = st.sampled_from(["made", "refused", "unknown", "?"])
_submissions = st.builds(Submission, st.none() | _names, _answers, st.lists(_ids, max_size=2).map(tuple), _ids)


_sent = st.sampled_from(["msg_a", "msg_b"])
_deliveries = st.builds(DeliveryRow, _ids, _sent, _ids, st.sampled_from(["success", "error", "?"]), st.integers(-1, 3),
                  st.sampled_from(["pending", "delivered", "undeliverable", "dropped", "?"]), _ids)  # fmt: skip
_receipts = st.builds(Receipt, _ids, _sent, st.sampled_from(["{}", "?"]), st.sampled_from([None, 204, 410, 500]))
_messages = st.builds(
    MessageEntry, _ids, st.sampled_from(["sent", "taken", "acknowledged", "buried", "?"]),
    st.sampled_from([TASKS, EVENTS, DEAD, "?"]), st.sampled_from(["a", "event-1", "event-2", "dead-1", "?"]),
    st.none() | _ids,
)  # fmt: skip
_handovers = st.builds(Handover, _ids, _ids, _ids, st.lists(_names, max_size=2).map(tuple))


_evidence = st.builds(
    Evidence,
    st.lists(_rows, max_size=12),
    st.lists(_tasks, max_size=4),
    st.lists(_entries, max_size=8),
    st.lists(_submissions, max_size=4),
    st.dictionaries(_names, st.lists(_ids, max_size=2).map(tuple)),
    st.none() | st.lists(_ids),
    st.frozensets(_ids),
    st.dictionaries(_names, st.lists(_names).map(tuple)),
    st.dictionaries(st.sampled_from(["lane a", "resource b", "?"]), st.integers(-1, 2)),
    st.dictionaries(st.sampled_from(["lane:a", "key:b", "?"]), st.just(Rate(1.0, 1))),
    st.none() | st.lists(_deliveries, max_size=4),
    st.lists(_receipts, max_size=4),
    st.dictionaries(_names, st.lists(st.sampled_from(["success", "error", "?"])).map(tuple)),
    st.none() | st.dictionaries(_states, _ids),
    st.none() | _times,
    _times,
    st.booleans(),
    st.none() | _times,
    _times,
    st.lists(_lines, max_size=4),
    st.lists(_arrivals, max_size=3),
    st.none() | st.dictionaries(_names, _times),
    st.lists(_ids, max_size=2),
    st.none() | _times,
    st.none() | st.lists(_messages, max_size=6),
    st.lists(_handovers, max_size=3),
    st.frozensets(_ids),
)  # fmt: skip


@given(_evidence)
def test_no_evidence_is_too_strange_to_be_judged(evidence: Evidence):
    """Spec: X5"""
    assert all(
        violation.text and violation.invariant in "I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11 I12 I13 I14"
        for violation in check(evidence)
    )
