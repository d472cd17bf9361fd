"""The units of `deploy/`: what they forbid, and that servers and workers do without it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.headgate_server import HEADGATE, headgate_server
from lab.raw_http import raw_client
from tests.deploy.confined import confinement, read_unit

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy").glob("*.service"))
SERVER, WORKER = "headgate.service", "headgate-worker@.service"
WORST_EXPOSURE = 20  # of 100, as systemd-analyze adds it up
YES = (
    "NoNewPrivileges", "LockPersonality", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID", "ProtectHome",
    "PrivateTmp", "PrivateDevices", "PrivateUsers", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
    "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables",
)  # fmt: skip
needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")


def test_the_units_grant_no_privilege_and_bound_calls_addresses_memory_and_files():
    assert [file.name for file in UNITS] == [WORKER, SERVER]
    for unit in map(read_unit, UNITS):
        assert [name for name in YES if unit.get(name) != ["true"]] == []
        assert unit["CapabilityBoundingSet"] == unit["AmbientCapabilities"] == [""]
        assert unit["SystemCallFilter"][0] == "@system-service"
        assert unit["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
        assert (unit["ProtectSystem"], unit["UMask"], unit["StateDirectoryMode"]) == (["strict"], ["0077"], ["0700"])
        assert unit.keys() >= {"MemoryMax", "LimitNOFILE", "User"}


def test_a_handler_that_the_kernel_kills_does_not_stop_the_other_tasks_of_its_unit():
    assert read_unit(ROOT / "deploy" / WORKER)["OOMPolicy"] == ["continue"]


@needs_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda file: file.stem)
def test_systemd_understands_every_line_of_a_unit_and_calls_it_well_protected(unit):
    verify = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    complaints = [line for line in verify.stderr.splitlines() if "is not executable" not in line]
    assert complaints == []
    judge = ["systemd-analyze", "security", "--offline=true", f"--threshold={WORST_EXPOSURE}", unit]
    judged = subprocess.run(judge, capture_output=True, text=True, check=False)
    assert judged.returncode == 0, judged.stdout


TASKS = """
import subprocess

import headgate

app = headgate.Headgate()


@app.task(isolation="process")
def small():
    return subprocess.run(["id", "-u"], capture_output=True, check=True).returncode


@app.task(isolation="process", memory_megabytes=100)
def large():
    subprocess.run(["tail", "/dev/zero"])  # it keeps all of that one line
"""


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_a_server_and_the_processes_of_handlers_run_under_the_restrictions_of_their_units(tmp_path):
    """Spec: A11"""
    (tmp_path / "tasks.py").write_text(TASKS)
    of_server, of_worker = (confinement(read_unit(ROOT / "deploy" / name)) for name in (SERVER, WORKER))
    work, submit = ("work", "tasks", "--processes", "2"), ("submit", "-m", "tasks", "small", "--wait", "60")
    with (
        headgate_server(tmp_path, of_server) as server,
        raw_client(server.address) as client,
        subprocess.Popen([HEADGATE, *work], cwd=tmp_path, preexec_fn=of_worker, stderr=subprocess.DEVNULL) as worker,
    ):
        try:
            subprocess.run([HEADGATE, *submit], cwd=tmp_path, stdout=subprocess.DEVNULL, check=True)
            large = client.ask("POST", "/api/tasks?wait=60", {"type": "large"}).json
        finally:
            worker.terminate()
    assert large["status"] == "failed"
    assert large["error_info"].startswith("killed: memory")
