"""The attempts in `headgate show`."""

from headgate.cli.tasks import LATEST
from headgate.core.end_reasons import EndReason
from headgate.core.machine import Raised
from headgate.core.usage import Usage
from headgate.store.claim.contract import Outcome
from tests.factories import running, start, submit


def block(answer):
    """The lines below ATTEMPTS, its heading first."""
    lines: list[str] = answer.out.splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("ATTEMPTS"))
    return lines[begin : lines.index("", begin)]


def test_show_has_a_line_for_each_attempt_with_how_it_ended(anywhere, run):
    """Spec: X8"""
    first = running(anywhere)
    anywhere.executions.settle([Outcome(first, Raised("OSError: gone\n\nline 7", 0.0, EndReason.ERROR), Usage(1.5))])
    anywhere.due.bring()
    [second] = start(anywhere)
    anywhere.executions.settle([Outcome(second, Raised("ValueError: no\n\nline 8", None, EndReason.FATAL))])
    heading, columns, one, two = block(run("show", first.id))
    assert heading == "ATTEMPTS"
    assert columns.split() == ["started", "took", "by", "outcome"]
    assert one.split()[0] == "1"
    assert "worker:" in one
    assert one.endswith("retrying in 0.0 s: OSError: gone")
    assert two.split()[0] == "2"
    assert two.endswith("failed (fatal): ValueError: no")


def test_show_as_json_has_the_whole_error_of_each_attempt(anywhere, run):
    """Spec: X8"""
    first = running(anywhere)
    anywhere.executions.settle([Outcome(first, Raised("OSError: gone\n\nline 7", 0.0, EndReason.ERROR), Usage(1.5))])
    [told] = run("show", first.id, "--json").json["attempts"]
    assert (told["number"], told["exec_id"], told["outcome"]) == (1, first.exec_id, "retrying")
    assert (told["reason"], told["error"]) == ("error", "OSError: gone\n\nline 7")
    assert told["usage"]["cpu_seconds"] == 1.5


def test_show_says_how_many_earlier_attempts_it_leaves_out(here, run):
    """Spec: X8"""
    task = submit(here)
    for _ in range(LATEST + 3):
        [execution] = start(here)
        here.executions.settle([Outcome(execution, Raised("OSError: gone", 0.0, EndReason.ERROR))])
        here.due.bring()
    heading, _, *rows = block(run("show", task.id))
    assert heading == "ATTEMPTS (3 earlier: --json shows them)"
    assert [row.split()[0] for row in rows] == [str(number) for number in range(4, LATEST + 4)]
    assert len(run("show", task.id, "--json").json["attempts"]) == LATEST + 3


def test_show_has_no_attempts_of_a_task_that_has_not_started(here, run):
    """Spec: X8"""
    task = submit(here)
    assert "ATTEMPTS" not in run("show", task.id).out
    assert run("show", task.id, "--json").json["attempts"] == []
