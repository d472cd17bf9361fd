"""The page about the inside names what is there, and leaves out none."""

import re
from pathlib import Path

import headgate.duties
from headgate.service import Service
from headgate.store.store import open_store

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "headgate"
PAGE = (ROOT / "docs" / "internals.md").read_text()


def first_cells(heading: str) -> set[str]:
    """What stands in code in the first column of the table below a heading."""
    table = PAGE.partition(heading)[2].partition("\n#")[0]
    return {name for row in re.findall(r"^\|([^|]+)\|", table, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)}


def test_every_file_that_the_internals_name_exists():
    packages = "|".join(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    named = re.findall(rf"`((?:{packages})/[\w/]+\.py)", PAGE)
    assert len(named) > 50
    assert [name for name in named if not (PACKAGE / name).exists()] == []


def test_the_internals_list_every_package_and_module():
    packages = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    alone = {path.name for path in PACKAGE.glob("*.py")} - {"__init__.py"}
    assert first_cells("## Packages and modules\n") == packages | alone | {"console/", "src/"}


def test_the_internals_list_every_part_of_the_store():
    with open_store("sqlite://") as store:
        parts = {name for name in vars(store) if name != "database"}
    assert first_cells("### The parts of the store\n") == parts


def test_the_internals_list_every_duty():
    found = [getattr(headgate.duties, name) for name in headgate.duties.__all__]
    duties = {kind.__module__ for kind in found if isinstance(kind, type) and issubclass(kind, Service)}
    listed = {f"headgate.{name.removesuffix('.py').replace('/', '.')}" for name in first_cells("### The duties\n")}
    assert listed == duties
