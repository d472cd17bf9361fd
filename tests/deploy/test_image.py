"""The image: what goes into it is pinned, and it runs as nobody in particular."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LINES = [line for line in DOCKERFILE.replace("\\\n", "").splitlines() if line and not line.startswith("#")]


def test_everything_that_is_installed_in_the_image_is_in_a_lock_with_its_hash():
    commands = [part.strip() for line in LINES if line.startswith("RUN ") for part in line[4:].split("&&")]
    installs = [command for command in commands if re.search(r"\b(pip|npm|apt|apt-get|curl|wget)\b", command)]
    assert len(installs) == 4
    for command in installs:
        assert "--no-deps" in command
        named = re.findall(r"-r (?:/tmp/)?(\S+)", command)
        if named:
            assert "--require-hashes" in command
            assert (ROOT / named[0]).exists()
        else:  # our own wheel, built with what is installed already, or installed
            assert command.endswith(("/wheels/*.whl", "--no-build-isolation --wheel-dir /wheels ."))


def test_the_builder_chooses_the_digest_of_the_base():
    assert LINES[0].startswith("ARG BASE=")
    assert [line.split(" AS ")[0] for line in LINES if line.startswith("FROM")] == ["FROM ${BASE}"] * 2


def test_the_image_runs_as_a_user_who_is_not_root():
    assert [line for line in LINES if line.startswith("USER")] == ["USER 10001"]
    assert "--uid 10001" in DOCKERFILE
