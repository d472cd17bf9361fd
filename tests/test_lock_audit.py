"""The audit of the locks, by a service of advisories on this machine."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lab.audit import BrokenLock, Pin, ask_uv, main, node_pins, python_pins

ROOT = Path(__file__).parents[1]
HASH = "0" * 64
GOOD, BAD = Pin("anyio", "4.16.0"), Pin("anyio", "4.15.0")
ADVISORY = {
    "id": "PYSEC-1", "summary": "it is a sieve", "modified": "2026-01-01T00:00:00Z",
    "affected": [{"package": {"ecosystem": "PyPI", "name": BAD.name}, "versions": [BAD.version]}],
}  # fmt: skip


class Advisories(BaseHTTPRequestHandler):
    """Knows one advisory, in the manner of OSV."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        known = {"vulns": [{"id": ADVISORY["id"], "modified": ADVISORY["modified"]}]}
        self.reply({"results": [known if query["version"] == BAD.version else {} for query in asked]})

    def do_GET(self) -> None:
        self.reply(ADVISORY)

    def reply(self, answer: object) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Nobody reads it."""


@contextmanager
def advisories() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_a_known_vulnerability_is_found_and_an_unreachable_service_is_named():
    with advisories() as service:
        assert ask_uv([GOOD], "--service-url", service) == ([], "")
        [found] = ask_uv([GOOD, BAD], "--service-url", service).known
    assert "anyio 4.15.0" in found
    assert "PYSEC-1: it is a sieve" in found
    known, unchecked = ask_uv([BAD], "--service-url", service)
    assert known == []
    assert unchecked != ""


@pytest.mark.parametrize(
    "line", ["anyio", "anyio>=4", "anyio==4.16.0", "anyio @ file:///tmp/anyio", "-e .", "anyio==4.*"]
)
def test_a_lock_that_names_a_package_without_a_version_or_a_hash_fails_the_audit(line, tmp_path, capsys):
    hashes = f" \\\n    --hash=sha256:{HASH}" * 2
    good = f"psycopg[binary, pool]==3.3.8 ; python_version < '4'{hashes}\n"
    assert python_pins(f"# a comment\n{good}") == [Pin("psycopg", "3.3.8")]
    lock = tmp_path / "requirements.txt"
    lock.write_text(good + line + "\n")
    assert main([lock]) == 1
    assert "has no version or no hash" in capsys.readouterr().out


def test_a_package_of_npm_without_a_hash_is_refused():
    package = {"version": "1.0.0", "integrity": "sha512-x"}
    assert node_pins(json.dumps({"packages": {"": {}, "node_modules/a": package}})) == [Pin("a", "1.0.0")]
    with pytest.raises(BrokenLock, match="'b' has no version or no hash"):
        node_pins(json.dumps({"packages": {"node_modules/a/node_modules/b": package | {"integrity": ""}}}))


def test_the_audit_is_given_every_lock():
    [pins] = [line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith("PINS")]
    assert set(pins.split()[2:]) == {
        str(file.relative_to(ROOT)) for pattern in ("*.txt", "bench/*/*.txt") for file in ROOT.glob(pattern)
    }
