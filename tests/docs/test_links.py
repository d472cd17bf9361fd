"""Links in the documents lead somewhere, and every guide can be found."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs").glob("*.md"))
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *GUIDES]
PAGES = [*DOCUMENTS, ROOT / "console" / "README.md"]
LINK = re.compile(r"\]\(([^()\s]+)\)")
FILE = re.compile(r"`((?:docs|tests|clients|deploy|console|lab|bench)/[\w./@-]*|[A-Z]+\.md)`")


def prose(page: Path) -> str:
    """The page without what is shown in blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """What its headings are called in an address, as GitHub does it."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_every_anchor_to_a_heading(page):
    for link in LINK.findall(prose(page)):
        if re.match(r"https?:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_document_names_exists(page):
    assert [name for name in FILE.findall(prose(page)) if not (ROOT / name).exists()] == []


def test_the_readme_lists_every_guide_once():
    _, _, index = (ROOT / "README.md").read_text().partition("## Where to read on")
    assert sorted(re.findall(r"docs/([\w-]+\.md)", index)) == [guide.name for guide in GUIDES]
