"""Known vulnerabilities in what locks name: `python -m lab.audit LOCK…`.

That every package of a lock has one version and a hash can be checked anywhere. Advisories are looked up by uv and by
npm, each at the service it knows. What cannot be looked up, offline for one, is named and is no failure.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lab.node import node

UV = str(Path(sys.executable).with_name("uv"))
PATIENCE_SECONDS = 5
_PIN = re.compile(r"([\w.-]+)(?:\[[^\]]+\])?==([\w.!+]+)(?: ; [^#]+?)?(?: +--hash=sha256:[0-9a-f]{64})+")
_PROJECT = """\
[project]
name = "audited-locks"
version = "0"
requires-python = ">=3.11"
"""
_LOCK = """\
version = 1
requires-python = ">=3.11"

[[package]]
name = "audited-locks"
version = "0"
source = { virtual = "." }
"""
_SOURCE = 'source = { registry = "index" }'  # uv asks about packages of registries only; this one is never opened


class Pin(NamedTuple):
    """A package in the one version that a lock allows."""

    name: str
    version: str


class BrokenLock(Exception):
    """A lock would let something in that nobody has seen."""


def python_pins(text: str) -> list[Pin]:
    """The packages of a requirements file, each of which has a version and a hash."""
    pins = []
    for line in text.replace("\\\n", "").splitlines():
        if line and not line.startswith("#"):
            if (found := _PIN.fullmatch(line)) is None:
                raise BrokenLock(f"{line.split('--')[0].strip()!r} has no version or no hash")
            pins.append(Pin(found[1].lower(), found[2]))
    return pins


def node_pins(text: str) -> list[Pin]:
    """The packages of a package-lock.json, each of which has a version and a hash."""
    pins = []
    for place, package in json.loads(text)["packages"].items():
        if place:  # the one at "" is the project itself
            name = place.rpartition("node_modules/")[2]
            if not package.get("version") or not package.get("integrity", "").startswith("sha512-"):
                raise BrokenLock(f"{name!r} has no version or no hash")
            pins.append(Pin(name, package["version"]))
    return pins


class Findings(NamedTuple):
    """What is known against some packages; `unchecked` says why, if nobody could be asked."""

    known: list[str]
    unchecked: str = ""


def ask_uv(pins: Iterable[Pin], *service: str) -> Findings:
    """What uv's service knows against Python packages."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(_PROJECT)
        Path(folder, "uv.lock").write_text(_uv_lock(sorted(set(pins))))
        command = [UV, "audit", "--frozen", "--no-config", "--preview-features", "audit-command", *service]
        limits = {"UV_HTTP_RETRIES": "0", "UV_HTTP_TIMEOUT": str(PATIENCE_SECONDS)}
        status, output, errors = _run(command, Path(folder), limits)
    if status == 0:
        return Findings([])
    return Findings([output.strip()]) if status == 1 else Findings([], _last_line(errors))


def _uv_lock(pins: Iterable[Pin]) -> str:
    entries = [f'[[package]]\nname = "{pin.name}"\nversion = "{pin.version}"\n{_SOURCE}\n' for pin in pins]
    needed = (f'  {{ name = "{pin.name}", version = "{pin.version}", {_SOURCE} }},\n' for pin in pins)
    return f"{_LOCK}dependencies = [\n{''.join(needed)}]\n\n" + "\n".join(entries)


def ask_npm(folder: Path) -> Findings:
    """What npm's service knows against the packages of a folder's lock."""
    npm, environment = node()
    limits = ("--fetch-retries=0", f"--fetch-timeout={PATIENCE_SECONDS * 1000}")
    _, output, errors = _run([*npm, "audit", "--package-lock-only", "--json", *limits], folder, environment)
    try:
        report = json.loads(output)
    except ValueError:
        return Findings([], _last_line(errors))
    if "auditReportVersion" not in report:
        return Findings([], report.get("message") or _last_line(errors))
    return Findings([f"{name}: {found['severity']}" for name, found in report["vulnerabilities"].items()])


def _run(command: list[str], folder: Path, environment: Mapping[str, str]) -> tuple[int, str, str]:
    """The status, the output and the errors of a command; status 2 if it took far too long."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False,
            timeout=4 * PATIENCE_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return 2, "", "no answer"
    return done.returncode, done.stdout, done.stderr


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2].strip() or "no answer"


def main(locks: Sequence[Path]) -> int:
    pins: list[Pin] = []
    of_node = [lock for lock in locks if lock.suffix == ".json"]
    for lock in locks:
        try:
            found = node_pins(lock.read_text()) if lock in of_node else python_pins(lock.read_text())
        except BrokenLock as error:
            print(f"audit: {lock}: {error}")
            return 1
        pins += [] if lock in of_node else found
    print("audit: every package in the locks has a version and a hash")
    findings = {"the Python packages": ask_uv(pins)} | {str(lock): ask_npm(lock.parent) for lock in of_node}
    for subject, finding in findings.items():
        if finding.unchecked:
            print(f"audit: {subject}: NOT checked against advisories ({finding.unchecked})")
        else:
            print(f"audit: {subject}: " + ("\n".join(finding.known) or "no known vulnerability"))
    return 1 if any(finding.known for finding in findings.values()) else 0


if __name__ == "__main__":
    sys.exit(main([Path(word) for word in sys.argv[1:]]))
