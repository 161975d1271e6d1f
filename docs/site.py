"""Hooks of the documentation site: pages from the root, a download, and checks of what it shows."""

from __future__ import annotations

import re
from functools import partial
from importlib import import_module
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from api_index import GROUP, Name, describe, find_examples
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocstrings import Inventory
from section_index import make_indexes, read_pages

ROOT = Path(__file__).parents[1]
FROM_ROOT = {  # pages of the site stay plain Markdown: decision 038
    "AGENTS.md": "contributing/agents.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "production/security-policy.md",
    "VERSIONING.md": "reference/versioning.md",
    "tests/messages/texts.md": "reference/all-messages.md",
}
"""Files outside this folder that are pages too, and where."""

MESSAGES = ("reference/messages.md", "reference/all-messages.md")
"""Each of their texts is one long line."""

TINY = "get-started/tiny.py"
"""A file that the site offers as a download. It is a block of the page LOCAL_MODEL."""
LOCAL_MODEL = "get-started/local-model.md"

_TINY = re.compile(r'^```python title="tiny\.py"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_TINY_LINK = "[`tiny.py`](local-model.md#a-tiny-model-for-the-tutorials)"
_NAME = """::: {}.{}
    options:
      heading_level: 3
      show_root_heading: true
      show_root_full_path: false
      show_root_toc_entry: true
"""
_CODE = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add pages of the root, index pages, the examples, and the model server to download."""
    own = {uri: (ROOT / name).read_text(encoding="utf-8") for name, uri in FROM_ROOT.items()}
    indexes = make_indexes(config.nav or (), read_pages(ROOT / "docs") | own)
    for uri, content in (own | indexes).items():
        files.append(File.generated(config, uri, content=content))
    [tiny] = _TINY.findall((ROOT / "docs" / LOCAL_MODEL).read_text(encoding="utf-8"))
    files.append(File.generated(config, TINY, content=tiny))
    for example in sorted((ROOT / "examples").glob("*.py")):
        source = example.read_text(encoding="utf-8")
        files.append(File.generated(config, f"examples/{example.name}", content=source))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Wrap output, and let links lead to files of the root and to the download."""
    titled = markdown.replace("\n```text output\n", '\n```{ .text .output title="Output" }\n')
    if page.file.src_uri in MESSAGES:
        titled = titled.replace("\n```text\n", "\n```{ .text .output }\n")
    titled = titled.replace(_TINY_LINK, '[`tiny.py`](tiny.py){ download="tiny.py" }')
    home = dirname(page.file.src_uri)
    titled = GROUP.sub(partial(_list_names, home), titled)
    folder = "" if page.file.src_uri in FROM_ROOT.values() else join("docs", home)

    def link(match: re.Match[str]) -> str:
        target = normpath(join(folder, match[1]))
        return relpath(FROM_ROOT.get(target, target.removeprefix("docs/")), home)

    return _LINK.sub(link, titled)


def _list_names(home: str, group: re.Match[str]) -> str:
    """Write a table of names, each with a sentence and an example, then the entry of each."""
    names = [Name(group[1], name) for name in group[2].split()]
    rows = [
        f"| [`{name.name}`](#{name.module}.{name.name}) | {describe(name)} | {example} |"
        for name in names
        for example in [_link_example(name, home)]
    ]
    table = "\n".join(("| name | what it is or does | example |", "|---|---|---|", *rows))
    return "\n".join((table, "", *(_NAME.format(*name) for name in names)))


def _link_example(name: Name, home: str) -> str:
    place = find_examples()[name]
    return f"[{place.title.replace('`', '')}]({relpath(place.page, home)}#{place.anchor})"


def on_page_content(html: str, page: Page, **_: object) -> str:
    """Fail if a page shows the marks of a fence, because its first line is not understood."""
    if "```" in _CODE.sub("", html):
        message = f"{page.file.src_uri} has a fence that is shown as text: put its title in quotes."
        raise PluginError(message)
    return html


def on_post_build(config: MkDocsConfig) -> None:
    """Fail if a public name has no entry in the API reference; one without a docstring has none."""
    with (Path(config.site_dir) / "objects.inv").open("rb") as file:
        documented = set(Inventory.parse_sphinx(file))
    if missing := sorted(_public_names() - documented):
        message = f"Public names without an entry in the API reference: {', '.join(missing)}."
        raise PluginError(message)


def _public_names() -> set[str]:
    """The names that each module of the API reference exports. Adapters need their frameworks."""
    pages = (ROOT / "docs" / "reference" / "api").glob("*.md")
    modules = re.findall(r"^::: (\S+)", "".join(map(Path.read_text, pages)), re.MULTILINE)
    modules = [name for name in modules if not name.startswith("handrail.adapters.")]
    return {f"{name}.{public}" for name in modules for public in import_module(name).__all__}
