"""A throwaway cluster of three RabbitMQ nodes on one machine; gone with whoever started it."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

from lab.rabbitmq import Peers, RabbitMQ


class RabbitMQCluster:
    """Three nodes on private ports, each with its data in a folder of its own, which it keeps when it is killed.

    Start the cluster from a thread that outlives it, as a single server.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="headgate-rabbitmq-cluster-"))
        self._folder.chmod(0o755)
        self._peers = Peers(("one", "two", "three"))
        self.nodes = [RabbitMQ(self._folder / name, name, self._peers) for name in self._peers.names]
        self.url = ",".join(node.url for node in self.nodes)

    def start(self) -> Self:
        """Start all nodes at once, and return when each of them knows all others."""
        try:
            for node in self.nodes:
                node.launch()
            for node in self.nodes:
                node.await_ready()
            self.nodes[0].control("await_online_nodes", str(len(self.nodes)))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop all nodes as in a crash, and remove what they have written."""
        for node in self.nodes:
            node.stop("immediate")
        self._peers.mapper.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def leader_of(self, queue: str) -> RabbitMQ:
        """The node that leads a quorum queue, as the cluster says."""
        return self._node_of(self._queue(queue)["leader"])

    def members_of(self, queue: str) -> list[RabbitMQ]:
        """The nodes that have a copy of a quorum queue and are online."""
        return [self._node_of(name) for name in self._queue(queue)["online"]]

    def _queue(self, name: str) -> dict[str, Any]:
        [alive, *_] = [node for node in self.nodes if node.is_running]
        found = json.loads(alive.control("list_queues", "--formatter=json", "-q", "name", "leader", "online"))
        return next(each for each in found if each["name"] == name)

    def _node_of(self, name: str) -> RabbitMQ:
        return next(node for node in self.nodes if node.node == name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
