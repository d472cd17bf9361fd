"""The web console's own tools, with the Node that pip installs: `python -m lab.console build`.

build   the pages, into the package, if anything they are made of has changed
types   the API's types, from the server's own OpenAPI file
check   format, lint, types, and whether the API's types are up to date
test    the tests of its parts
lock    the lock files anew, those of the clients too, free of addresses
"""

import fcntl
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lab.node
from lab.node import ROOT

SOURCE = ROOT / "console"
BUILT = ROOT / "src" / "headgate" / "console"
TYPES = SOURCE / "src" / "services" / "schema.d.ts"
STAMP = ".made-from"
MADE_OF = ("src", "public", "scripts", "index.html", "package-lock.json", "tsconfig.json", "vite.config.ts")


def build() -> None:
    """Make the pages, unless those that are there were made of the same. One process at a time."""
    with (SOURCE / ".building").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        now = fingerprint()
        if is_built() and (BUILT / STAMP).read_text() == now:
            return
        install()
        npm("run", "--silent", "build")
        (BUILT / STAMP).write_text(now)


def is_built() -> bool:
    return (BUILT / STAMP).exists()


def fingerprint() -> str:
    """Of everything the pages are made of."""
    digest = hashlib.sha256()
    for part in MADE_OF:
        path = SOURCE / part
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(SOURCE)}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def types() -> None:
    TYPES.write_text(generated_types())


def generated_types() -> str:
    """The API's types, as they should be."""
    install()
    with tempfile.TemporaryDirectory() as folder:
        description, made = Path(folder, "openapi.json"), Path(folder, "schema.d.ts")
        description.write_text(json.dumps(_openapi()))
        flags = ("--root-types", "--alphabetize", "--default-non-nullable=false")
        npm("exec", "--", "openapi-typescript", description, "--output", made, *flags)
        return made.read_text()


def _openapi() -> dict[str, Any]:
    """The server's own description; what can go wrong is the same shape everywhere, and is said once per route."""
    from headgate.api.app import routes_of
    from headgate.api.openapi import openapi_of
    from headgate.pack import find_packs

    document = openapi_of(routes_of(find_packs(["media"])))
    for methods in document["paths"].values():
        for operation in methods.values():
            answers = operation["responses"]
            problems = [answers.pop(status) for status in list(answers) if not status.startswith("2")]
            if problems:
                answers["default"] = {**problems[0], "description": "A problem"}
    return document


def check() -> None:
    install()
    if TYPES.read_text() != generated_types():
        sys.exit(f"{TYPES.relative_to(ROOT)} is out of date: run `python -m lab.console types`")
    npm("run", "--silent", "check")


def test() -> None:
    install()
    npm("run", "--silent", "test")


def lock() -> None:
    """The locks of the console and of the clients."""
    for folder in (SOURCE, lab.node.CLIENTS):
        lab.node.lock(folder)


def install() -> None:
    lab.node.install(SOURCE)


def npm(*words: str | Path) -> None:
    lab.node.npm(SOURCE, *words)


COMMANDS: dict[str, Callable[[], None]] = {
    "build": build, "types": types, "check": check, "test": test, "lock": lock,
}  # fmt: skip

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]]()
