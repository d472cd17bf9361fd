"""Debian's packages, unpacked beside the system: no root is needed, and no system changed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path


def unpacked(package: str, name: str, mend: Callable[[Path, Path], None] = lambda draft, root: None) -> Path:
    """A folder with the files of a package and of whatever it needs that is not installed; made once.

    `mend` may change the files of the draft, given the place they will have in the end.
    """
    root = Path(tempfile.gettempdir(), f"headgate-{name}-{os.geteuid()}")
    if not root.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise RuntimeError(f"no {package}, and no apt-get to fetch it with")
        draft = Path(tempfile.mkdtemp(prefix=f"{root.name}-"))
        try:
            _fetch(draft, package)
            for file in draft.glob("*.deb"):
                subprocess.run(["dpkg-deb", "--extract", file, draft / "root"], check=True)
            mend(draft / "root", root)
            (draft / "root").rename(root)
        except OSError:
            if not root.exists():  # otherwise another run was quicker
                raise
        finally:
            shutil.rmtree(draft)
    if root.stat().st_uid != os.geteuid():
        raise RuntimeError(f"{root} belongs to somebody else")
    return root


def libraries(root: Path) -> str:
    """Where its programs find their libraries, as LD_LIBRARY_PATH says it."""
    folders = {file.parent for pattern in ("*.so*", "*/*.so*") for file in root.glob(f"usr/lib/*-linux-*/{pattern}")}
    return ":".join([*map(str, sorted(folders)), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")


def _fetch(folder: Path, package: str) -> None:
    """Download packages into the folder, by package lists of our own."""
    apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'cache'}"]
    for name in ("lists", "cache/archives"):
        (folder / name / "partial").mkdir(parents=True)
    if os.geteuid() == 0:
        apt += ["-o", "APT::Sandbox::User=root"]  # the folder is ours, not its lesser user's
    subprocess.run([*apt, "update"], check=True, stdout=subprocess.DEVNULL)
    install = [*apt, "--simulate", "--no-install-recommends", "install", package]
    plan = subprocess.run(install, check=True, capture_output=True, text=True).stdout
    wanted = [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]
    subprocess.run([*apt, "download", *wanted], check=True, cwd=folder, stdout=subprocess.DEVNULL)
