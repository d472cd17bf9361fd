"""A cluster of three nodes whose leader is killed under load: the others take over, and nothing is lost.

One leader in the suite, on one database; HEADGATE_STORY_NODE_KILLS=5 kills so many, on both, as `make crash` does.
"""

import os
from collections.abc import Iterator

import pytest

from headgate.settings import broker_urls
from lab.rabbitmq_cluster import RabbitMQCluster
from tests.broker.conftest import doing
from tests.broker.load import QUEUE, Load
from tests.broker.test_scenarios import by_broker
from tests.conftest import DATABASES
from tests.worker.conftest import until, working

KILLS = int(os.environ.get("HEADGATE_STORY_NODE_KILLS", "1"))
EACH = 100  # tasks, at least, that run from one kill to the next


@pytest.fixture(scope="module")
def cluster() -> Iterator[RabbitMQCluster]:
    with RabbitMQCluster() as started:
        yield started


@pytest.fixture
def broker(cluster):
    return cluster.url


@pytest.mark.parametrize("resend", [1.0])
@pytest.mark.parametrize("url", DATABASES if KILLS > 1 else ["sqlite"], indirect=True)
def test_a_cluster_whose_leader_is_killed_under_load_loses_nothing_and_ends_nothing_twice(app, cluster, settings):
    """Spec: D1, D2, D6"""
    load = Load(app)
    other_way_round = ",".join(reversed(broker_urls(cluster.url)))
    duties = doing(settings, broker=other_way_round)
    with duties, working(app, concurrency=5, name="one"), working(app, concurrency=3, name="two"):
        until(lambda: by_broker(app), 60)
        with load.submitting():
            for number in range(KILLS):
                load.await_runs((number + 1) * EACH)
                leader = cluster.leader_of(QUEUE)
                leader.stop("immediate")
                load.await_broker()
                assert cluster.leader_of(QUEUE) is not leader
                leader.start()
                until(lambda: len(cluster.members_of(QUEUE)) == 3, 60)
        load.assert_each_ends_once()
