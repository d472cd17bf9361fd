"""Every command that the documents show is run: here, or by the test that follows its page."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import quote

import psycopg
import pytest
import typer
import yaml  # type: ignore[import-untyped]
from psycopg.sql import SQL, Identifier

from headgate.cli.main import app
from lab.server import free_port
from tests.docs.guides import ADDRESS, BLOCK, NOT_RUN, ROOT, Guide, Server, environment

PAGES = {page.name: page.read_text() for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]}
MAKEFILE = (ROOT / "Makefile").read_text()
OF_PACKS = {"cookies", "parcels"}  # commands that are there with their pack
INLINE = re.compile(r"`([^`]+)`")
DIRECTIVE = re.compile(r"\w+( [^;{}]+)?;|location \S+ \{|\}")


def prose(text: str) -> str:
    return BLOCK.sub("", text)


def test_every_page_with_commands_is_followed_by_a_test():
    tests = "".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    pages = {name for name, text in PAGES.items() if re.search(r"^\$ ", text, re.MULTILINE)}
    named = {name for name in pages if f'"{name}"' in tests or f'"../{name}"' in tests}
    assert pages - named == set()


@pytest.fixture
def database(postgres_server: str) -> Iterator[tuple[str, str]]:
    """A PostgreSQL as somebody has it: its URL with a schema that is there, and the name of one that is not."""
    here, missing = "a_deployment", "a_deployment_in_its_schema"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for schema in (here, missing):
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(here)))
        yield f"{postgres_server}?options={quote(f'-csearch_path={here}')}", missing
        for schema in (here, missing):
            connection.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(schema)))


def test_the_commands_of_the_guide_to_deployment_run(tmp_path, database):
    """Spec: X13"""
    url, schema = database
    real = {"postgresql://headgate:…@db/headgate": f"'{url}'", "=jobs": f"={schema}"}
    assert Guide("deployment.md", real).tried(tmp_path) >= 7


def test_the_commands_of_the_guide_to_security_run(tmp_path):
    """Spec: B11"""
    outside = "$ headgate serve --host 0.0.0.0\n$ curl"  # tests listen on this machine alone
    guide = Guide("security.md", {outside: outside.replace("0.0.0.0", "127.0.0.1")})
    assert guide.tried(tmp_path) >= 4


def test_the_command_of_the_page_on_guarantees_runs(tmp_path):
    assert Guide("guarantees.md").tried(tmp_path) >= 1


def test_the_servers_that_the_guide_to_the_command_line_starts_run(tmp_path):
    assert Guide("cli.md").tried(tmp_path, console=False) >= 3


def test_make_run_serves_the_demonstration(tmp_path):
    assert "make run" in PAGES["README.md"]
    settings = {
        "HEADGATE_URL": f"sqlite:///{tmp_path}/headgate.db", "HEADGATE_SECRET": "s" * 32,
        "MEDIA_LIBRARY": str(tmp_path / "library"),
    }  # fmt: skip
    run = Server(f'make run DEMO="--port {free_port()}"', ROOT, environment(tmp_path) | settings)
    try:
        assert run.until(ADDRESS), run.lines
    finally:
        run.process.terminate()
        run.end()


def test_every_target_of_make_that_a_document_names_is_there_and_runs_here_or_is_listed():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = {name for text in PAGES.values() for name in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)}
    assert named <= targets
    assert {f"make {name}" for name in targets} == {"make run"} | {
        words for words in NOT_RUN if words.startswith("make ")
    }


def resolve(words: list[str]) -> None:
    """Find the command and its options, as `headgate` does; run nothing."""
    command = typer.main.get_command(app)
    while isinstance(command, typer.core.TyperGroup) and words and not words[0].startswith("-"):
        word, *words = words
        inner = command.get_command(None, word)  # type: ignore[arg-type]
        assert inner or command.params, f"no command {word}"
        if inner is None:
            break
        command = inner
    options = {name for param in command.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {"CHANGELOG.md"}))
def test_every_command_that_a_page_names_in_a_sentence_is_there(name):
    for shown in INLINE.findall(prose(PAGES[name]).replace("\n", " ")):
        if shown.startswith("headgate ") and not {"COMMAND", *OF_PACKS} & set(shown.split()):
            resolve(shlex.split(shown.replace("…", ""))[1:])
        elif found := re.match(r"python -m ([\w.]+)", shown):
            assert find_spec(found[1]), shown


def blocks(name: str, words: str) -> list[str]:
    return [block for _, block in BLOCK.findall(PAGES[name]) if words in block]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_understands_what_the_guide_adds_to_a_unit(tmp_path):
    [addition] = blocks("deployment.md", "[Service]")
    unit = tmp_path / "headgate-worker@.service"
    unit.write_text(f"{(ROOT / 'deploy' / unit.name).read_text()}\n{addition}")
    verify = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert [line for line in verify.stderr.splitlines() if "is not executable" not in line] == []


def test_the_proxys_configuration_is_whole():
    [shown] = blocks("deployment.md", "proxy_pass")
    lines = [line.strip() for line in shown.splitlines()]
    assert [line for line in lines if not DIRECTIVE.fullmatch(line)] == []
    assert shown.count("{") == shown.count("}")


def test_the_containers_of_compose_run_commands_that_are_there():
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert services.keys() == {"postgres", "server", "worker"}
    resolve(services["worker"]["command"])
