"""How the benchmark beside the peers reads its figures."""

import pytest

from bench.peers.comparison import BROKER, CELERY, HUEY, PGQUEUER, Readings, render, render_delivery
from bench.percentile import percentile
from bench.subject import drained


def test_a_drain_counts_neither_the_start_of_its_workers_nor_its_last_tasks():
    marks = [(0.0, 1000), (5.0, 1000), (6.0, 900), (7.0, 600), (8.0, 300), (30.0, 0)]
    assert drained(marks, 1000) == pytest.approx(300.0)


def test_a_drain_that_is_over_at_once_counts_from_the_last_look_before_it():
    assert drained([(0.0, 1000), (5.0, 1000), (7.0, 0)], 1000) == pytest.approx(500.0)


def test_a_percentile_is_one_of_the_values():
    values = [float(value) for value in range(100, 0, -1)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 50.0, 99.0, 100.0]


def test_the_table_says_which_targets_are_met():
    readings: Readings = {
        ("drain 1", "postgres"): [15.0, 16.0, 99.0],
        ("drain 1", PGQUEUER): [10.0, 1.0, 99.0],
        ("drain 1", "sqlite"): [40.0],
        ("drain 1", HUEY): [10.0],
        ("latency", "postgres"): [1.0, 2.0, 9.0],
        ("latency", PGQUEUER): [4.0, 4.0, 4.0],
    }
    _, _, *lines = render(readings).splitlines()
    assert [line.split()[-1] for line in lines] == ["met", "missed", "met", "missed"]
    assert lines[0].split() == [
        "finished/s,",
        "1",
        "process",
        "÷",
        "pgqueuer",
        "16",
        "10",
        "1.60",
        "≥",
        "1.6",
        "×",
        "met",
    ]


def test_broker_mode_stands_beside_those_who_use_the_same_broker():
    readings: Readings = {("drain 1", BROKER): [30.0], ("drain 1", CELERY): [10.0], ("drain 1", PGQUEUER): [10.0]}
    _, _, line = render(readings).splitlines()
    assert line.split("÷")[0].strip() == "finished/s, 1 process, by RabbitMQ"
    assert line.endswith("≥ 2 ×  met")


def test_a_delivery_may_cost_two_commits_and_a_publish_more_than_a_claim():
    readings: Readings = {
        ("latency", "postgres"): [3.0],
        ("latency", BROKER): [6.5],
        ("commit", BROKER): [1.0],
        ("publish", BROKER): [1.5],
        ("outage", BROKER): [40.0, 3100.0],
    }
    lines = render_delivery(readings, poll_seconds=2.0).splitlines()
    assert [line.split()[-4:] for line in lines[-2:]] == [
        ["6.5", "≤", "6.5", "met"],
        ["3,100.0", "≤", "3,000.0", "missed"],
    ]
