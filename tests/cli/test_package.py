"""What we hand out works in an environment that has nothing else in it."""

import signal
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

from tests.cli.conftest import PATIENCE

ROOT = Path(__file__).parents[2]


def call(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_in_an_empty_environment_reaches_a_first_finished_task(tmp_path, spawn, folder):
    """Spec: C12"""
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", ROOT)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    [source] = (tmp_path / "dist").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert not [name for name in archive.getnames() if ".venv" in name or "node_modules" in name]
    with zipfile.ZipFile(wheel) as archive:
        assert "headgate/console/index.html" in archive.namelist()  # Spec: X7

    venv.create(tmp_path / "empty")
    python = tmp_path / "empty" / "bin" / "python"
    pip = [
        Path(sys.base_prefix, "bin", "python3"),
        "-m",
        "pip",
        "--python",
        python,
        "--disable-pip-version-check",
        "install",
        "-q",
    ]
    call(*pip, "--only-binary=:all:", "--require-hashes", "-r", ROOT / "requirements.txt")  # no compiler
    call(*pip, "--no-deps", wheel)
    assert str(ROOT) not in call(python, "-I", "-c", "import headgate; print(headgate.__file__)")

    for file in folder.glob("*.py"):
        file.unlink()
    program = str(python.with_name("headgate"))
    up = spawn("up", program=program)
    up.hear("serves")
    answer = call(program, "submit", "hello", "--wait", PATIENCE)
    assert answer == '1 succeeded "Hello, world!"\n'
    up.signal(signal.SIGTERM)
    assert up.ended() == 0
