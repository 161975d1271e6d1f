"""The documents: every Python block runs and prints what the page says, every link leads somewhere.

The blocks of a page run in order and share their names, as if they stood in one file. A fence
opened with ```` ```text output ```` holds what the Python block before it prints; a block without
one prints nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from importlib.metadata import version
from io import StringIO
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

import handrail
import llms_txt
from console_pages import TUTORIALS
from tiny_server import Tiny

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = Path(handrail.__file__).parent
PAGES = sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
DOCUMENTS = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
DECISIONS = sorted(DOCS.glob("decisions/[01]*.md"))
GENERATED = {*DOCS.glob("reference/api/*.md"), DOCS / "decisions" / "index.md"}
"""Pages without an example of their own: the site fills them, or they are lists."""
LESSONS = sorted({*DOCS.rglob("*.md")} - {*DECISIONS} - GENERATED)
FROM_ROOT = {
    "contributing/agents.md",
    "contributing/index.md",
    "production/security-policy.md",
    "reference/changelog.md",
    "reference/versioning.md",
}
"""Pages that the site makes of files of the root."""
WHEN_NOT = DOCS / "why" / "when-not.md"
NOT_BUILT = DOCS / "decisions" / "032-not-built-yet.md"
"""The two pages that say what is missing."""

FILE = re.compile(r'(?:text|python) title="[^"]+"')
"""How the fence of a file is opened. Commands on the page use the file; see `console_pages`."""
MODEL = "from tiny import"
"""A page with this line needs the tiny model server."""
PATIENCE = 600
"""Seconds for a page with a model, however busy the machine is."""
SCREEN = 50
"""Lines of a page that can be read without scrolling far."""

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"(?:\[[^\]\n]*\]\(|<img src=\")([^)\s\"]+)[)\"]")
_ABSENCE = re.compile(
    r"\bnot\s+(?:(?:available|implemented|supported|used)\s+)?yet\b"
    r"|\bin\s+this\s+version\b|\bhandrail\s+has\s+no\b",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

pytestmark = pytest.mark.filterwarnings(
    "error",
    # left to the collector by tests before: see pyproject.toml
    "ignore:Exception ignored in. <function BaseConnection.__del__:pytest.PytestUnraisableExceptionWarning",
)


class Block(NamedTuple):
    """A fenced Python block: where it stands, what it says, what it must print."""

    line: int
    source: str
    output: str


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def shown(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> Iterator[Block]:
    for fence, after in pairwise([*_FENCE.finditer(text), None]):
        if fence and fence["info"] == "python":
            line = text.count("\n", 0, fence.start()) + 2
            told = after and after["info"] == "text output"
            yield Block(line, fence["body"], after["body"] if after and told else "")


def prose(text: str) -> str:
    return _FENCE.sub("", text)


def code(text: str) -> str:
    """The Python blocks and code spans of a page: where a name is a name, not a word."""
    fenced = [block.source for block in blocks(text)]
    return "\n".join([*fenced, *_CODE_SPAN.findall(prose(text))])


def anchors(text: str) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(prose(text)))
    return {heading.strip().replace(" ", "-") for heading in kept}


def dead_links(page: Path) -> list[str]:
    dead: list[str] = []
    for link in _LINK.findall(_CODE_SPAN.sub("", prose(text_of(page)))):
        if "://" in link:
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (fragment and fragment not in anchors(text_of(target))):
            dead.append(link)
    return dead


def without_a_page(pictures: Iterable[Path]) -> list[Path]:
    """The pictures that no page shows."""
    linked = [(page.parent, _LINK.findall(text_of(page))) for page in PAGES]
    shown_here = {(folder / link).resolve() for folder, links in linked for link in links}
    return [picture for picture in pictures if picture not in shown_here]


def run(block: Block, names: dict[str, object]) -> str:
    """Run a block as the file `example.py`; what it printed."""
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(block.source, "example.py", "exec"), names)  # noqa: S102  our own documents
    return printed.getvalue()


def with_framework(page: Path) -> bool:
    """Whether `tests/adapters/run.py` runs the page, beside its framework."""
    own = ("index.md",)
    return page.parent.name == "frameworks" and page.name not in own


def with_model(page: Path) -> bool:
    return any(MODEL in block.source for block in blocks(text_of(page)))


@pytest.mark.timeout(PATIENCE)  # the first page that imports an SDK waits for it
@pytest.mark.parametrize(
    "page", [one for one in PAGES if not (with_model(one) or with_framework(one))], ids=shown
)
def test_every_block_runs_and_prints_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_blocks(page, tmp_path, monkeypatch)


@pytest.mark.timeout(PATIENCE)
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.soak] * (page.name == "first-tool.md"))
        for page in filter(with_model, PAGES)
    ],
    ids=shown,
)
def test_every_block_runs_with_a_real_model(
    page: Path, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_PORT", tiny.port)
    monkeypatch.syspath_prepend(tiny.folder)
    check_blocks(page, tmp_path, monkeypatch)


def check_blocks(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the blocks of a page in an empty folder, and compare what they print."""
    example = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)  # where types look for their names
    monkeypatch.chdir(tmp_path)
    home = tmp_path.with_name(f"{tmp_path.name}-home")  # commands keep their runs there
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for block in blocks(text_of(page)):
        try:
            printed = run(block, example.__dict__)
        except BaseException as error:
            error.add_note(f"in the block at {shown(page)}:{block.line}")
            raise
        assert printed == block.output, f"{shown(page)}:{block.line}"


def test_a_block_knows_its_line_and_its_output() -> None:
    text = (
        "# Page\n\n```python\nprint(1)\n```\n\nIt prints:\n\n```text output\n1\n```\n\n"
        "```python\nx = 2\n```\n\n```text\nnot output\n```\n"
    )

    assert list(blocks(text)) == [Block(4, "print(1)\n", "1\n"), Block(14, "x = 2\n", "")]


@pytest.mark.parametrize("page", DOCUMENTS, ids=shown)
def test_every_output_follows_a_python_block(page: Path) -> None:
    kinds = [fence["info"] for fence in _FENCE.finditer(text_of(page))]
    before = ["", *kinds]

    assert {before[n] for n, kind in enumerate(kinds) if kind == "text output"} <= {"python"}


@pytest.mark.parametrize("page", DOCUMENTS, ids=shown)
def test_every_fence_is_closed_and_says_what_it_holds(page: Path) -> None:
    text = text_of(page)

    assert "```" not in prose(text)
    kinds = {fence["info"] for fence in _FENCE.finditer(text)}
    assert {kind for kind in kinds if not FILE.fullmatch(kind)} <= {
        "console",
        "python",
        "text",
        "text output",
    }


def test_a_title_without_quotes_is_found() -> None:
    """The site would show such a fence as text."""
    kinds = ('text title="a.txt"', "text title=a.txt", 'python title="a.py"', "python title=a.py")

    assert [kind for kind in kinds if not FILE.fullmatch(kind)] == [kinds[1], kinds[3]]


@pytest.mark.parametrize("page", DOCUMENTS, ids=shown)
def test_every_link_between_documents_resolves(page: Path) -> None:
    assert dead_links(page) == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One two\n\n[here](#one-two) [gone](#three) [lost](lost.md) [far](https://example.org)\n"
        '`[span](span.md)` <img src="lost.png" width="9%" alt="">\n',
        encoding="utf-8",
    )

    assert dead_links(page) == ["#three", "lost.md", "lost.png"]


def absences(text: str) -> list[str]:
    """What a page says about features that are missing."""
    return [" ".join(match.split()) for match in _ABSENCE.findall(text)]


@pytest.mark.parametrize("page", sorted({*DOCUMENTS} - {WHEN_NOT, NOT_BUILT}), ids=shown)
def test_no_other_page_says_what_is_missing(page: Path) -> None:
    """Such a sentence stays when the feature comes: see docs/why/when-not.md."""
    assert absences(text_of(page)) == []


def test_an_absence_is_found() -> None:
    text = "handrail has\nno server. Not yet. It is not used yet, In this version. A rule not read yet."

    assert absences(text) == ["handrail has no", "Not yet", "not used yet", "In this version"]


def test_the_list_of_missing_features_is_the_one_of_its_decision() -> None:
    listed = re.findall(r"^\| \*\*(.+?)\*\*", text_of(WHEN_NOT), re.MULTILINE)
    decided = re.findall(r"^- \*\*(.+?)\.?\*\*", text_of(NOT_BUILT), re.MULTILINE)

    assert [name.lower() for name in decided] == [name.lower() for name in listed]
    assert listed


def test_the_readme_is_short_and_begins_with_a_short_program() -> None:
    text = text_of(ROOT / "README.md")
    before, _, _ = text.partition("```python")
    first = next(blocks(text)).source

    assert len(text.splitlines()) <= 250
    assert len(before.split()) <= 120
    assert len(first.splitlines()) <= 12
    assert "lambda" not in first


@pytest.mark.parametrize("page", LESSONS, ids=shown)
def test_every_page_has_a_block_that_runs(page: Path) -> None:
    console = "```console\n$ handrail", "```console\n$ python"
    tested = page.parent.name == "cli" or page in TUTORIALS
    commands = tested and any(fence in text_of(page) for fence in console)

    assert commands or any(blocks(text_of(page)))


@pytest.mark.parametrize("page", DECISIONS, ids=shown)
def test_a_decision_says_context_choice_and_cost_within_a_screen(page: Path) -> None:
    text = text_of(page)

    assert _HEADING.findall(text)[1:] == ["Context", "Choice", "Cost"]
    assert len(text.splitlines()) <= SCREEN


def test_every_picture_is_on_a_page() -> None:
    assert without_a_page(DOCS.rglob("pictures/*")) == []


def test_the_check_of_pictures_can_fail() -> None:
    assert without_a_page([DOCS / "none.svg"]) == [DOCS / "none.svg"]


def test_the_navigation_names_every_page() -> None:
    on_a_page_of_their_own = {shown(page) for page in DECISIONS}
    written = {shown(page) for page in DOCS.rglob("*.md")} - on_a_page_of_their_own
    named = {f"docs/{path}" for path in llms_txt.pages()}

    assert named - written == {f"docs/{page}" for page in FROM_ROOT}
    assert written - named == set()


def test_the_decisions_page_lists_every_decision() -> None:
    index = DOCS / "decisions" / "index.md"
    linked = {(index.parent / link).resolve() for link in _LINK.findall(text_of(index))}

    assert linked == set(DECISIONS)


def test_the_list_for_models_is_written_from_the_pages() -> None:
    assert llms_txt.FILE.read_text(encoding="utf-8") == llms_txt.llms_txt(), (
        "run `python tests/llms_txt.py`"
    )


def test_every_public_name_is_documented() -> None:
    told = "\n".join(code(text_of(page)) for page in sorted(DOCS.rglob("*.md")))

    assert [n for n in handrail.__all__ if not re.search(rf"\b{n}\b", told)] == []


def test_the_rules_for_the_code_name_every_folder() -> None:
    table = text_of(ROOT / "AGENTS.md").partition("## Layers")[2].partition("## Words")[0]
    rows = re.findall(r"^\| [`\[]([\w./]+)[`\]]", table, re.MULTILINE)
    folders = [f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")]
    modules = [path.name for path in SOURCE.glob("*.py") if path.name != "_version.py"]

    assert sorted(rows) == sorted([*folders, *modules])


def test_the_way_of_a_call_names_files_that_are_there() -> None:
    table = text_of(ROOT / "AGENTS.md").partition("### The way of a call")[2].partition("## ")[0]
    files = re.findall(r"^\| `([\w./]+)` \|", table, re.MULTILINE)
    missing = [
        name
        for name in files
        if not (SOURCE / (name if "/" in name else f"_execution/{name}")).is_file()
    ]

    assert (missing, 0 < len(files) <= 12) == ([], True)


def test_the_changelog_has_the_version() -> None:
    assert f"## {version('handrail')}" in text_of(ROOT / "CHANGELOG.md")
