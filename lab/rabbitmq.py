"""A throwaway RabbitMQ: installed, or Debian's packages unpacked beside the system; gone with whoever started it."""

import atexit
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import lab.debian as debian
from lab.server import die_with_parent, free_port, tail, unprivileged

SIGNALS = {"fast": signal.SIGTERM, "immediate": signal.SIGKILL}
GREETING = b"AMQP\x00\x00\x09\x01"
ERLANG = "usr/lib/erlang"
LOG = "rabbitmq.log"
PATIENCE = 60.0


class PortMapper:
    """Erlang's port mapper, for our nodes alone: left to itself, Erlang would start one for the whole machine."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._process is None:
            _, environment = programs()
            program = shutil.which("epmd", path=environment["PATH"]) or "epmd"
            self._process = subprocess.Popen([program], env=environment | self.settings(), **_apart())

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None

    def settings(self) -> dict[str, str]:
        return {"ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": str(self.port)}


@dataclass(frozen=True)
class Peers:
    """What the nodes of a cluster have in common. Their data knows them by these names."""

    names: tuple[str, ...] = ("headgate",)
    mapper: PortMapper = field(default_factory=PortMapper)
    cookie: str = field(default_factory=secrets.token_hex)


class RabbitMQ:
    """A throwaway RabbitMQ server on private ports and in a folder of its own, open to `guest` on this machine.

    A folder that is given is kept, so the server can be started again on its data; when root, `nobody` must be
    able to reach it. Start the server from a thread that outlives it: on Linux it dies with that thread. A node of a
    cluster (`lab/rabbitmq_cluster.py`) is one of several peers, whose port mapper is not its own.
    """

    def __init__(self, folder: Path | None = None, name: str = "headgate", peers: Peers | None = None) -> None:
        self._port, self._inner_port = free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"
        self.node = f"{name}@localhost"
        self._peers = peers or Peers()
        self._is_alone = peers is None
        self._given_folder = folder
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start the server and return once it answers; what it needs is fetched and unpacked the first time."""
        self.launch()
        self.await_ready()
        return self

    def launch(self) -> None:
        """Start the server; it does not answer yet."""
        assert self._process is None, "already started"
        self._folder = self._given_folder or Path(tempfile.mkdtemp(prefix="headgate-rabbitmq-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        atexit.register(self.stop)
        try:
            self._launch(self._folder)
        except BaseException:
            self.stop("immediate")
            raise

    def await_ready(self) -> None:
        """Return once the server answers; it is stopped if it does not."""
        assert self._process is not None, "not started"
        assert self._folder is not None, "not started"
        deadline = time.monotonic() + PATIENCE
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._answers():
                return
            time.sleep(0.05)
        said = tail(self._folder / LOG)
        self.stop("immediate")
        raise RuntimeError(f"RabbitMQ did not start:\n{said}")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server, `fast` or `immediate` (as in a crash); stopping twice is harmless."""
        atexit.unregister(self.stop)
        if self._process is not None:
            self._process.send_signal(SIGNALS[mode])
            try:
                self._process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        if self._is_alone:
            self._peers.mapper.stop()
        if self._folder is not None and self._folder != self._given_folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def control(self, *arguments: str) -> str:
        """What `rabbitmqctl` answers to a command."""
        assert self._folder is not None, "not started"
        scripts, environment = programs()
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [scripts / "rabbitmqctl", "--node", self.node, *arguments],
            env=environment | self._settings(self._folder),
            check=True,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            **unprivileged(),
        )
        return done.stdout

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self, folder: Path) -> None:
        scripts, environment = programs()
        environment |= self._settings(folder)
        self._write_files(folder)
        self._peers.mapper.start()
        with (folder / LOG).open("ab") as output:
            self._process = subprocess.Popen(
                [scripts / "rabbitmq-server"], cwd=folder, env=environment, **_apart(output)
            )

    def _write_files(self, folder: Path) -> None:
        """Its settings, and the cookie by which nodes and `rabbitmqctl` know each other."""
        (folder / "plugins").write_text("[].\n")
        names = enumerate(self._peers.names, 1)
        nodes = [f"cluster_formation.classic_config.nodes.{number} = {name}@localhost\n" for number, name in names]
        (folder / "settings.conf").write_text("".join(nodes))
        cookie = folder / ".erlang.cookie"
        if not cookie.exists():
            cookie.touch(0o600)
            cookie.write_text(self._peers.cookie)
        if user := unprivileged():
            for path in (folder, cookie):
                os.chown(path, user["user"], user["group"])

    def _settings(self, folder: Path) -> dict[str, str]:
        """Every place and port it would otherwise share with an installed server."""
        return {
            "HOME": str(folder),  # where its cookie is kept
            **self._peers.mapper.settings(),
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(self._inner_port),
            "RABBITMQ_MNESIA_BASE": str(folder),
            "RABBITMQ_MNESIA_DIR": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
            "RABBITMQ_CONFIG_FILE": str(folder / "settings"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RUNNING_UNDER_SYSTEMD": "yes",  # the script becomes the server, so that our child is the server
        }

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 5) as connection:
                connection.sendall(GREETING)
                return bool(connection.recv(1))
        except OSError:
            return False


def _apart(output: Any = subprocess.DEVNULL) -> dict[str, Any]:
    """What a process of ours is started with, so that it ends with us and not before."""
    return {
        **unprivileged(),
        "stdin": subprocess.DEVNULL,
        "stdout": output,
        "stderr": output,
        "process_group": 0,  # a Ctrl-C is for the tests, not for their server
        "preexec_fn": die_with_parent(signal.SIGTERM),
    }


def programs() -> tuple[Path, dict[str, str]]:
    """The folder that holds `rabbitmq-server`, named, installed or unpacked; and the environment it runs in."""
    environment = os.environ | {"LC_ALL": "C.UTF-8"}
    if named := os.environ.get("HEADGATE_TEST_RABBITMQ_BIN"):
        return Path(named), environment
    if found := shutil.which("rabbitmq-server", path=f"{environment.get('PATH', os.defpath)}:/usr/sbin"):
        return Path(found).resolve().parent, environment  # on Debian a wrapper for root, beside the program itself
    root = debian.unpacked("rabbitmq-server", "rabbitmq", _mend)
    environment["PATH"] = f"{root / 'usr/bin'}:{environment.get('PATH', os.defpath)}"
    environment["LD_LIBRARY_PATH"] = debian.libraries(root)
    return root / "usr/lib/rabbitmq/bin", environment


def _mend(draft: Path, root: Path) -> None:
    """Erlang's starter knows where it lies."""
    starter = draft / ERLANG / "bin/erl"
    starter.write_text(starter.read_text().replace(f"=/{ERLANG}\n", f"={root / ERLANG}\n"))
