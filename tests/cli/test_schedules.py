"""`headgate schedules`: schedules from a terminal."""

import signal

import pytest

from headgate.core.schedule import ScheduleStatus
from headgate.core.task import TaskType
from tests.schedules import CALLED, new


def test_a_schedule_is_added_shown_edited_and_removed(run, anywhere):
    """Spec: B9"""
    made = run(
        "schedules", "add", "plain", "0 3 * * *", "a=1", "b=x", "--timezone", "Asia/Shanghai", "--missed", "once",
        "--overlap", "queue", "--log", "trigger_log", "--priority", 2, "--lane", "slow", "--mutex", "m", "--tenant", 7,
        "--creator", 5, "--json",
    ).json  # fmt: skip
    assert made["ext"] == {"a": 1, "b": "x"}
    assert made["task"] == {"lane": "slow", "priority": 2, "mutex": "m"}
    assert (made["status"], made["next_tick"], made["tenant_id"], made["creator"]) == ("new", None, 7, 5)
    assert run("schedules", "show", made["id"], "--json").json == made
    assert "Asia/Shanghai" in run("schedules", "show", made["id"]).out
    edited = run("schedules", "edit", made["id"], "--cron", "*/7 * * * *", "--missed", "all", "c=2", "--json").json
    assert (edited["cron_expressions"], edited["missed"], edited["ext"]) == ("*/7 * * * *", "all", {"c": 2})
    assert {name: edited[name] for name in ("timezone", "overlap", "task", "tenant_id")} == {
        name: made[name] for name in ("timezone", "overlap", "task", "tenant_id")
    }
    assert run("schedules", "remove", made["id"]).out == f"{made['id']} removed\n"
    gone = run("schedules", "show", made["id"])
    assert (gone.code, gone.err) == (3, f"error: no schedule {made['id']}\n")


def test_the_list_is_a_table_for_people_and_lines_for_programs(run, here):
    """Spec: B9"""
    here.schedules.add(new("*/5 * * * *", ext='{"a": 1}'), status=ScheduleStatus.ONLINE)
    here.schedules.add(new(http=CALLED))
    head, called, plain = run("schedules").out.splitlines()
    assert head.split() == ["ID", "STATUS", "CRON", "TIMEZONE", "NEXT", "TICK", "TARGET"]
    assert called.endswith("POST https://example.org/hook")
    assert plain.endswith('plain {"a": 1}')
    assert [line["id"] for line in run("schedules", "list", "--json").lines] == [2, 1]
    assert [line["id"] for line in run("schedules", "list", "--status", "online", "--json").lines] == [1]


def test_on_and_off_line_one_that_is_not_there_holds_up_none_of_the_rest(run, here):
    """Spec: B9"""
    for _ in range(2):
        here.schedules.add(new())
    answer = run("schedules", "online", 1, 9, 2)
    assert (answer.code, answer.err) == (3, "error: no schedule 9\n")
    assert [line.split(",")[0] for line in answer.out.splitlines()] == ["1 online", "2 online"]
    assert run("schedules", "offline", 1).out == "1 offline\n"
    assert here.schedules.get(2).status is ScheduleStatus.ONLINE


def test_it_is_triggered_and_its_log_says_so(run, here):
    """Spec: B9, B10"""
    here.schedules.add(new())
    assert run("schedules", "trigger", 1).out == "1 triggered: task 1\n"
    head, line = run("schedules", "logs", 1).out.splitlines()
    assert (head.split(), line.split()) == (
        ["ID", "RESULT", "TICK", "TASK", "ERROR"],
        ["1", "executing", "manual", "1"],
    )
    [told] = run("schedules", "logs", 1, "--json").lines
    assert (told["result"], told["tick"], told["task_id"]) == ("executing", None, 1)


def test_an_endpoint_is_called_in_place_of_a_task(run, here):
    """Spec: B9"""
    url = "https://example.org/hook"
    made = run("schedules", "add", "report", "@hourly", "--http", url, "--method", "PUT", "--json").json
    assert made["http"] == {"url": url, "method": "PUT", "by_tenant": False}
    assert run("schedules", "edit", 1, "--http", f"{url}/2", "--json").json["http"] == {
        "url": f"{url}/2",
        "method": "POST",
        "by_tenant": False,
    }
    assert run("schedules", "trigger", 1).out == "1 triggered: HTTP call\n"


def test_a_preview_shows_the_ticks_of_a_schedule_or_of_an_expression(run, here):
    """Spec: B9"""
    here.schedules.add(new("0 3 * * *", timezone="Asia/Shanghai"))
    shown = run("schedules", "preview", 1, "--count", 2).out.splitlines()
    assert len(shown) == 3
    assert all("19:00:00Z" in line and line.endswith("03:00:00 +0800") for line in shown[1:])
    told = run("schedules", "preview", "0 3 * * *", "--timezone", "Asia/Shanghai", "--count", 2, "--json").json["items"]
    assert [tick["local"][10:] for tick in told] == ["T03:00:00+08:00"] * 2


def test_an_expression_is_previewed_without_a_store(run):
    """Spec: B9"""
    assert run("schedules", "preview", "@daily").code == 0
    assert run("schedules", "preview", "1").code == 4


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["add", "plain", "* *"], "minute, hour, day"), (["add", "plane", "* * * * *"], "did you mean plain"),
        (["add", "plain", "* * * * *", "--timezone", "Asia/Shangai"], "did you mean 'Asia/Shanghai'"),
        (["edit", "1"], "nothing to change"),
        (["add", "plain", "* * * * *", "--http", "x"], "--http: the URL must begin"),
        (["add", "plain", "* * * * *", "--http", "http://10.0.0.1/"], "--http: 10.0.0.1 is"),
        (["preview", "* *"], "not a cron expression"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(run, here, words, why):
    """Spec: B9"""
    here.schedules.add(new())
    answer = run("schedules", *words)
    assert answer.code == 2
    assert why in answer.err
    assert len(answer.err.splitlines()) == 1


def test_who_removes_what_a_program_declares_is_told_that_it_comes_again(run, here):
    """Spec: B9"""
    here.schedules.register([new(code="nightly")])
    assert "nightly adds it again at its next start" in run("schedules", "remove", 1).err


def test_a_program_with_a_schedule_fires_it_and_goes_on_after_a_restart(run, spawn, folder):
    """Spec: B9, B10, C12"""
    (folder / "clockwork.py").write_text(
        "import headgate\n"
        "app = headgate.Headgate()\n"
        "@app.periodic('* * * * * *', missed='once')\n"
        "@app.task\n"
        "async def beat() -> None: ...\n"
    )
    seen = 0
    for _ in range(2):
        up = spawn("up", "clockwork")
        up.hear("serves beat")
        wanted = seen + 2
        while (
            seen := sum(line["result"] == "success" for line in run("schedules", "logs", 1, "--json").lines)
        ) < wanted:
            assert up.process.poll() is None, up.definition
        up.signal(signal.SIGTERM)
        assert up.ended() == 0
    assert [line["status"] for line in run("schedules", "list", "--json").lines] == ["online"]
    ticks = [line["tick"] for line in run("schedules", "logs", 1, "--limit", 200, "--json").lines]
    assert len(set(ticks)) == len(ticks)


def test_a_schedule_whose_arguments_do_not_fit_its_type_is_refused_as_its_task_would_be(here, run):
    """Spec: B9, A10"""
    here.types.put(TaskType("keyed", mutex="film:{film}"))
    refused = run("schedules", "add", "keyed", "0 3 * * *", "movie=7")
    assert refused.code == 2
    assert (refused.err, refused.err) == (run("submit", "keyed", "movie=7").err,) * 2
    added = run("schedules", "add", "keyed", "0 3 * * *", "film=7", "--json").json
    assert run("schedules", "edit", added["id"], "movie=7").err == refused.err
    assert [each["id"] for each in run("schedules", "list", "--json").lines] == [added["id"]]


def test_a_module_checks_the_arguments_of_a_schedule(here, run):
    """Spec: B9, D3"""
    refused = run("schedules", "add", "-m", "shop", "tidy", "0 3 * * *", "shelf=upstairs")
    assert refused.code == 2
    assert refused.err == run("submit", "-m", "shop", "tidy", "shelf=upstairs").err
    added = run("schedules", "add", "-m", "shop", "tidy", "0 3 * * *", "shelf=3", "--json").json
    assert (added["type"], added["ext"]) == ("tidy", {"shelf": 3})
