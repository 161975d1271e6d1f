"""The English of the project: words to avoid, and how often "of" and "that" may occur.

`python tests/english.py` prints all findings. With paths, it prints the findings in those files.
`python tests/english.py --rates` prints both words per 1,000, and those ending in "-ing", by package.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import handrail

ROOT = Path(__file__).parents[1]
PACKAGE = Path(handrail.__file__).parent

MAX_WORDS = 30
"""Words of one sentence."""

WORDS = {
    r"mend(s|ed|ing)?": "fix, repair",
    r"(?<!is\s)(go|goes|gone|going|went) on": "resume, continue",
    r"(is|are|was|be) told": "receives, sees, is reported",
    r"nobody|somebody|anybody|whoever|whichever": "no one, a person, you, any",
    r"counts? (once|again|no more|only|here|as|too)|(does|do) not count": "applies, is used",
    r"wires?(?! format)": "API format",
    r"judg(e|es|ed|ing)|judge?ment": "decide, check, permissions",
    r"(?<!there\s)(is|are) no(?! longer| more| such| one)": "is not a",
    r"stands? (in|for|at|behind|there|before|below)": "is in, means",
    r"all else|what else there is": "everything else",
    r"side by side": "in parallel",
    r"tr(ied|ies) again|once more|anew": "retried, again",
    r"blanks?(?! lines?)": "whitespace, space",
    r"pictures?": "image",
    r"words for (you|the model|a model)|in words": "message, text",
    r"hands(?! over)": "tools, passes",
    r"(is|was) not there|is there already": "does not exist, already exists",
    r"(as it is|as they are)( now)?(?=[.,;:)|]|$)": "unchanged, the current",
    r"(the|their|its) like": "and similar",
    r"(?<!not\s)so (many|long)": "N, how many",
    r"if (you do not say|unsaid|you say nothing)|unless (it is )?said": "by default",
    r"nothing was run": "Not run",
    r"go about it|another way": "try another approach",
    r"this is not your fault": "(delete it)",
    r"had (its|an) effect": "taken effect",
    r"a yes|a no(?!-)|say(s|ing)? (yes|no)": "approval, denial, approve, deny",
    r"asked about|is asked for": "needs approval",
    r"floor|gravest|loosens?|looser|tighten": "safeguards, most severe, relax, restrict",
    r"takes? ((it|them|that|one) )?back": "undo, revoke, forget",
    r"look(s|ed)? (at|into)": "review, inspect, check",
    r"handed (back|on|in)|hand (it )?on": "returned, passed",
    r"thereby|therefore|meanwhile|beneath|henceforth|withal": "so, in the meantime, under",
    r"knots?|lane|glid(e|er|es)|desk|voices?|door": "group, fast path, stages, opinions, module",
    r"simply|just|easy|easily|obviously": "(delete it)",
    r"powerful|seamless|robust|blazing|magic(al)?": "(delete it)",
    r"colours?|licence|behaviour": "color, license, behavior",
    r"(author|custom|emphas|final|initial|minim|neutral|normal|optim|organ|priorit|real|recogn"
    r"|serial|special|standard|summar|synchron|token)is(e|es|ed|ing)": "-ize",
}
"""What must not appear, and what to write instead. A space is any whitespace, case is ignored."""

_PATTERNS = [
    (re.compile(rf"\b(?:{words})(?!\w)".replace(" ", r"\s+"), re.IGNORECASE), use)
    for words, use in WORDS.items()
]
_ANY = re.compile(
    rf"\b(?:{'|'.join(f'(?:{words})' for words in WORDS)})(?!\w)".replace(" ", r"\s+")
)
"""A quick look at a text in lower case: most texts have none of them."""
_NOT_PROSE = re.compile(
    r"^```.*?^```$|<!--.*?-->|<img [^>]*>|``[^`]+``|`[^`\n]+`|(?<=\])\([^)\s]+\)|https?://\S+",
    re.MULTILINE | re.DOTALL,
)
_PARAGRAPH = re.compile(r"(?:^(?![ \t]*$|[ \t]*[|#]).*\n?)+", re.MULTILINE)
_ITEM = re.compile(r"^[ \t]*(?:[-*]|\d+\.)[ \t]+", re.MULTILINE)
_SENTENCE = re.compile(r"\S.*?(?:[.!?](?=[\s)*\"]|$)|$)", re.DOTALL)


CEILINGS: dict[str, tuple[int, int]] = {
    "AGENTS.md": (16, 12),
    "CHANGELOG.md": (15, 13),
    "CONTRIBUTING.md": (17, 14),
    "README.md": (5, 13),
    "SECURITY.md": (13, 14),
    "VERSIONING.md": (9, 14),
    "_catalogue": (14, 6),
    "_collection": (10, 6),
    "_definition": (10, 10),
    "_execution": (10, 7),
    "_labels": (10, 9),
    "_permissions": (10, 8),
    "_schedule": (10, 6),
    "_schema": (12, 10),
    "_search": (13, 6),
    "_sources": (12, 11),
    "_support": (10, 6),
    "_turn": (10, 6),
    "_values": (20, 12),
    "adapters": (10, 6),
    "agent": (10, 8),
    "approvals": (11, 6),
    "cli": (9, 9),
    "coding": (10, 7),
    "console": (10, 6),
    "docs/cli": (15, 12),
    "credentials": (19, 6),
    "docs/coding": (16, 13),
    "docs/concepts": (18, 11),
    "docs/contributing": (18, 15),
    "docs/decisions": (12, 9),
    "docs/frameworks": (7, 9),
    "docs/get-started": (10, 12),
    "docs/guides": (15, 13),
    "docs/index.md": (9, 4),
    "docs/models": (20, 10),
    "docs/production": (15, 9),
    "docs/reference": (18, 13),
    "docs/why": (12, 15),
    "handrail": (14, 6),
    "hooks": (10, 6),
    "mcp": (10, 6),
    "models": (10, 6),
    "net": (10, 6),
    "openapi": (10, 6),
    "policy": (10, 8),
    "programs": (8, 6),
    "providers": (10, 6),
    "runs": (14, 9),
    "sandbox": (10, 6),
    "shared": (14, 9),
    "telemetry": (10, 6),
    "testing": (10, 6),
    "tools": (20, 14),
    "web": (18, 8),
}
"""The most "of" and "that" per 1,000 words, by package or folder of docs.

They may only fall: lower them with every rewrite.
"""

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_SMALL = (ast.expr_context, ast.Name)
_CODE = re.compile(r"``[^`]+``|`[^`\n]+`")
_WORD = re.compile(r"[A-Za-z][A-Za-z'\u2019-]*")


class Finding(NamedTuple):
    """A word or a sentence that has to change."""

    line: int
    match: str
    use: str


class Prose(NamedTuple):
    """A text that people or models read, and the line that it begins on."""

    line: int
    text: str
    has_sentences: bool


@cache
def files() -> dict[str, Path]:
    """Every file with prose, by its name in the repository."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = {page.relative_to(ROOT).as_posix(): page for page in pages}
    sources = {
        f"src/handrail/{path.relative_to(PACKAGE).as_posix()}": path
        for path in PACKAGE.rglob("*.py")
    }
    return dict(sorted((named | sources).items()))


def findings(path: Path) -> list[Finding]:
    """All that has to change in a file."""
    if path.suffix == ".py":
        texts = _texts(path).strings
    else:
        texts = [Prose(1, path.read_text(encoding="utf-8"), has_sentences=True)]
    return sorted({finding for one in texts for finding in check(one)})


class _Texts(NamedTuple):
    """The texts of a module."""

    docstrings: list[str]
    strings: list[Prose]
    """The docstrings, and the strings of more than two words."""


@cache
def _texts(path: Path) -> _Texts:
    found, parts, docstrings = _Texts([], []), set[int](), set[int]()
    for node in _nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, _DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr):
            docstrings.add(id(node.body[0].value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            found.docstrings.append(str(node.value.value))
        elif isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
        text = "" if id(node) in parts else _text(node)
        if len(text.split()) > 2:
            found.strings.append(Prose(node.lineno, text, has_sentences=id(node) in docstrings))
    return found


def _nodes(tree: ast.Module) -> Iterator[Any]:
    """Yield each node before what is in it."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:  # others may hang more on nodes that trees share, such as `Add`
            value = getattr(node, name, None)
            if type(value) is list:
                waiting += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, _SMALL):
                waiting.append(value)


def _text(node: ast.AST) -> str:
    """The text of a string, with an X for each value in it; of anything else, nothing."""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(value.value) if isinstance(value, ast.Constant) else "X" for value in node.values
        )
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def check(prose: Prose) -> Iterator[Finding]:
    """Yield what has to change in a text."""
    text = _NOT_PROSE.sub(_hide, prose.text)
    for pattern, use in _PATTERNS if _ANY.search(text.lower()) else ():
        for match in pattern.finditer(text):
            yield Finding(_line(prose, text, match.start()), " ".join(match[0].split()), use)
    if prose.has_sentences:
        yield from _check_sentences(prose, text)


def _check_sentences(prose: Prose, text: str) -> Iterator[Finding]:
    for start, sentence in _sentences(text):
        words = re.findall(r"[\w'/.-]*\w", sentence)
        line, begins = _line(prose, text, start), " ".join(words[:6])
        if sentence.startswith("What ") and not sentence.endswith("?"):
            yield Finding(line, begins, "a subject that acts")
        if len(words) > MAX_WORDS:
            yield Finding(line, begins, f"at most {MAX_WORDS} words")


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Each sentence with where it begins; headings and tables are left out."""
    for paragraph in _PARAGRAPH.finditer(text):
        starts = [0, *(item.start() for item in _ITEM.finditer(paragraph[0])), len(paragraph[0])]
        for start, end in pairwise(starts):
            item = _ITEM.sub(_hide_all, paragraph[0][start:end])
            for sentence in _SENTENCE.finditer(item):
                plain = sentence[0].strip("*_ \n")
                yield paragraph.start() + start + sentence.start(), plain


def _line(prose: Prose, text: str, at: int) -> int:
    return prose.line + text.count("\n", 0, at)


def _hide(code: re.Match[str]) -> str:
    """One word in place of code, and its lines."""
    if code[0].startswith("`") and not code[0].startswith("```"):
        return "X" + "\n" * code[0].count("\n")
    return re.sub(r"[^\n]", " ", code[0])


def _hide_all(item: re.Match[str]) -> str:
    return " " * len(item[0])


_STRING_OR_COMMENT = re.compile(
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+"""'
    r"|\'\'\'[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+\'\'\'"
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"'
    r"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'"
    r"|(#[^\n]*)",
    re.DOTALL,
)
"""A tenth of what the tokenizer costs."""


class Rates(NamedTuple):
    """Words per 1,000 words of prose."""

    of: float
    that: float
    ing: float
    words: int


def rates(texts: Iterable[str]) -> Rates:
    """Count the words of texts, without their code."""
    words = [word.lower() for text in texts for word in _WORD.findall(_CODE.sub(" x ", text))]
    thousands = max(len(words), 1) / 1000
    ing = sum(word.endswith("ing") and len(word) > 4 for word in words)
    return Rates(
        words.count("of") / thousands,
        words.count("that") / thousands,
        ing / thousands,
        len(words),
    )


def rates_by_package() -> dict[str, Rates]:
    """Return the rates of every package and folder of docs."""
    texts: dict[str, list[str]] = {}
    for name, path in files().items():
        texts.setdefault(package(name), []).extend(prose(path))
    return {name: rates(texts[name]) for name in sorted(texts)}


def package(name: str) -> str:
    """Return the row of a file in `CEILINGS`: its package, its folder of docs, or its name."""
    match name.split("/"):
        case ["src", "handrail", folder, _, *_]:
            return folder
        case ["src", "handrail", _]:
            return "handrail"
        case ["docs", folder, _, *_]:
            return f"docs/{folder}"
        case _:
            return name


def prose(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a module, or a page without code and link targets."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield _NOT_PROSE.sub(_hide, text)
        return
    yield from _texts(path).docstrings
    for match in _STRING_OR_COMMENT.finditer(text):
        if match[1]:
            yield match[1]


def above(measured: dict[str, Rates]) -> list[str]:
    """Return the rates above their ceilings, ready to print; without a ceiling, the limit is 0."""
    return [
        f"{name}: {rate:.1f} {word!r} per 1,000 words: at most {ceiling}"
        for name, found in measured.items()
        for word, rate, ceiling in zip(
            ("of", "that"), found, CEILINGS.get(name, (0, 0)), strict=False
        )
        if rate > ceiling
    ]


def violations() -> list[str]:
    """Return every finding, ready to print."""
    return [line for name in files() for line in describe(name)]


def describe(name: str) -> list[str]:
    """Return the findings in a file, ready to print."""
    return [f"{name}:{one.line}: {one.match!r}: write {one.use}" for one in findings(files()[name])]


def main(*options: str) -> int:
    """Print findings; the exit code says whether there are any."""
    if options == ("--rates",):
        for name, rate in rates_by_package().items():
            print(f"{name:20} {rate.of:5.1f} {rate.that:5.1f} {rate.ing:5.1f} {rate.words:7}")  # noqa: T201
        return 0
    if options:
        wanted = {Path(option).resolve() for option in options}
        lines = [
            line for name, path in files().items() if path in wanted for line in describe(name)
        ]
    else:
        lines = violations() + above(rates_by_package())
    print("\n".join(lines) or "clean")  # noqa: T201
    return min(len(lines), 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
