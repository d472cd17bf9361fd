"""Small inputs cost little, whatever they are."""

import subprocess
import sys
from pathlib import Path


def test_small_inputs_cost_little_whatever_they_are():
    """Spec: B5, B9, X6, X12"""
    # In a process of its own: after tests of other kinds, CPython 3.11 may hang in a profiler's callback.
    promises = Path(__file__).with_name("small_inputs.py")
    words = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", str(promises)]
    run = subprocess.run(words, cwd=promises.parents[2], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "3 passed" in run.stdout
