"""`headgate serve` on a port of its own, over a SQLite file of its own, in a process of its own."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from headgate.settings import PREFIX

PATIENCE = 60.0
HEADGATE = str(Path(sys.executable).with_name("headgate"))
_ADDRESS = re.compile(r'the API and the console are at (http://[^\s"]+)')


class HeadgateServer:
    """A server that runs: where it answers, what it logs, what it uses."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], before: Callable[[], None] | None, flags: Sequence[str]
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        environment |= {PREFIX + "PORT": "0"} | {PREFIX + name.upper(): str(settings[name]) for name in settings}
        self._process = subprocess.Popen(
            [HEADGATE, "serve", *flags], cwd=folder, env=environment, text=True, preexec_fn=before,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.log: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read_log)
        self._reader.start()
        try:
            found = _ADDRESS.search(self.logged("the API and the console are at"))
        except BaseException:
            self.stop()
            raise
        assert found is not None
        self.address = found[1]

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._more:
                self.log.append(line.rstrip())
                self._more.notify_all()

    def logged(self, words: str) -> str:
        """The first log line with these words, as soon as there is one."""
        with self._more:
            assert self._more.wait_for(lambda: any(words in line for line in self.log), PATIENCE), self.log
            return next(line for line in self.log if words in line)

    def memory(self) -> int:
        """The bytes it has in memory."""
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def cpu_seconds(self) -> float:
        """The processor time that it has used, all threads together. Linux only: /proc knows hundredths of a second."""
        clock_of_process = (~self._process.pid << 3) | 2
        return time.clock_gettime(clock_of_process)

    def connections(self) -> int:
        """How many clients are connected, those among them that it has not noticed to be gone."""
        open_now = psutil.Process(self._process.pid).net_connections("tcp")
        return sum(1 for each in open_now if each.status in (psutil.CONN_ESTABLISHED, psutil.CONN_CLOSE_WAIT))

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._reader.join(PATIENCE)
            assert self._process.stderr is not None
            self._process.stderr.close()


@contextmanager
def headgate_server(
    folder: Path, before: Callable[[], None] | None = None, flags: Sequence[str] = (), **settings: Any
) -> Iterator[HeadgateServer]:
    """A server in a folder, for a while; `before` runs in its process before it begins."""
    server = HeadgateServer(folder, settings, before, flags)
    try:
        yield server
    finally:
        server.stop()
