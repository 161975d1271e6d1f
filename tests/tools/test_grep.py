"""grep: what a model sees of files that match, and of those that were left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, Kind, Result
from handrail.tools._grep import grep
from handrail.tools._search import Engine
from handrail.tools._workspace import Workspace
from tools.search_stage import RIPGREP, ask, engines, made, text, tools

TREE = {
    "src/app.py": "import os\n\ndef main() -> None:\n    run()\n\nmain()\n",
    "src/lib/run.py": "def run() -> None:\n    pass\n",
    "src-old/app.py": "main()\n",
    "README.md": "Call main() to run.\n",
}
IGNORING = {
    ".gitignore": "build/\n*.log\n",
    "build/out.js": "secret_word\n",
    "a.log": "secret_word\n",
    ".env": "secret_word\n",
    ".github/ci.yml": "secret_word\n",
    "src/a.py": "other\n",
}


def test_what_a_model_is_told(tmp_path: Path) -> None:
    spec = grep(Workspace(tmp_path)).spec

    assert spec.description == snapshot("""\
Search the content of files for a regular expression, and see the lines that match.

Use it to find where something is said or defined, in one file or in all. To find files by
their name use glob; to see a whole file use read. Files that .gitignore and the like leave
out, and files with a leading dot, are searched only if they are named or asked for.\
""")
    assert spec.input_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": "The regular expression, without look-around and backreferences.",
                },
                "path": {
                    "type": "string",
                    "description": "The file or folder to search.",
                    "default": ".",
                },
                "glob": {
                    "type": "string",
                    "description": 'Search only files like this, such as "*.py" or "src/**/*.ts"; "!*.min.js" for all others.',
                    "default": "",
                },
                "type": {
                    "type": "string",
                    "description": 'Search only files of this type, such as "py", "js" or "rust".',
                    "default": "",
                },
                "output_mode": {
                    "type": "string",
                    "description": '"content" for lines, "files" for the names of files, "count" for how many lines match in each file.',
                    "enum": ["content", "files", "count"],
                    "default": "content",
                },
                "context": {
                    "type": "integer",
                    "description": "How many lines to show before and after each match.",
                    "default": 0,
                },
                "before": {
                    "type": "integer",
                    "description": "How many lines to show before each match, if that differs.",
                    "default": 0,
                },
                "after": {
                    "type": "integer",
                    "description": "How many lines to show after each match, if that differs.",
                    "default": 0,
                },
                "ignore_case": {
                    "type": "boolean",
                    "description": "Whether upper and lower case are alike.",
                    "default": False,
                },
                "multiline": {
                    "type": "boolean",
                    "description": 'Whether a match may go over several lines; "." then matches line ends too.',
                    "default": False,
                },
                "fixed_strings": {
                    "type": "boolean",
                    "description": "Whether the pattern is plain text.",
                    "default": False,
                },
                "include_ignored": {
                    "type": "boolean",
                    "description": "Whether files that ignore rules leave out are searched.",
                    "default": False,
                },
                "hidden": {
                    "type": "boolean",
                    "description": "Whether files with a leading dot in their path are searched.",
                    "default": False,
                },
                "limit": {
                    "type": "integer",
                    "description": "How many matching lines (or files) to show.",
                    "default": 250,
                },
                "offset": {
                    "type": "integer",
                    "description": "How many to skip, to see the next ones.",
                    "default": 0,
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        }
    )


@engines
def test_lines_are_grouped_by_file_and_sorted_by_path(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, TREE)

    assert text(tmp_path, "grep", engine, pattern="main|run") == snapshot("""\
README.md
1: Call main() to run.

src/app.py
3: def main() -> None:
4:     run()
6: main()

src/lib/run.py
1: def run() -> None:

src-old/app.py
1: main()
[6 matching lines in 4 files.]\
""")


@engines
def test_lines_around_a_match_are_shown_as_such(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, {"a.txt": "".join(f"line {n}\n" for n in range(1, 21))})

    assert text(tmp_path, "grep", engine, pattern="line (5|7|15)$", context=1) == snapshot("""\
a.txt
4- line 4
5: line 5
6- line 6
7: line 7
8- line 8
--
14- line 14
15: line 15
16- line 16
[3 matching lines in 1 file.]\
""")
    assert text(tmp_path, "grep", engine, pattern="line 5$", before=2) == snapshot("""\
a.txt
3- line 3
4- line 4
5: line 5
[1 matching line in 1 file.]\
""")
    assert text(tmp_path, "grep", engine, pattern="line 5$", after=1, before=1) == snapshot("""\
a.txt
4- line 4
5: line 5
6- line 6
[1 matching line in 1 file.]\
""")


@engines
def test_files_and_counts_can_be_asked_for(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, TREE)

    assert text(tmp_path, "grep", engine, pattern="main", output_mode="files") == snapshot("""\
README.md
src/app.py
src-old/app.py
[3 files.]\
""")
    assert text(tmp_path, "grep", engine, pattern="main", output_mode="count") == snapshot("""\
README.md: 1
src/app.py: 2
src-old/app.py: 1
[3 files, 4 matching lines.]\
""")


@engines
@pytest.mark.parametrize("mode", ["content", "files", "count"])
def test_pages_put_together_are_the_whole(tmp_path: Path, engine: Engine, mode: str) -> None:
    made(tmp_path, {f"{n}.txt": "hit\nno\nhit\n" for n in range(7)})
    whole = text(tmp_path, "grep", engine, pattern="hit", output_mode=mode)
    total = 14 if mode == "content" else 7
    pages = [
        text(tmp_path, "grep", engine, pattern="hit", output_mode=mode, limit=3, offset=at)
        for at in range(0, total, 3)
    ]

    def lines(page: str) -> list[str]:
        return [line for line in page.splitlines() if line and not line.startswith("[")]

    together = list(dict.fromkeys((n, line) for page in pages for n, line in _named(lines(page))))
    assert together == list(_named(lines(whole)))


def _named(lines: list[str]) -> list[tuple[str, str]]:
    """Lines with the file that they stand below."""
    name, found = "", []
    for line in lines:
        if line.endswith(".txt"):
            name = line
        found.append((name, line))
    return found


@engines
def test_a_page_says_how_to_see_the_next(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, {f"{n}.txt": "hit\nhit\n" for n in range(4)})

    def page(**args: Any) -> str:
        return text(tmp_path, "grep", engine, pattern="hit", **args).splitlines()[-1]

    assert [
        page(limit=3),
        page(limit=3, offset=3),
        page(limit=3, offset=6),
        page(limit=3, offset=8),
        page(limit=1),
        page(limit=2, output_mode="files"),
        page(limit=2, output_mode="count", offset=2),
    ] == snapshot(
        [
            "[Matching lines 1 to 3 of 8 in 4 files. Pass offset=3 for the next ones, or narrow the search.]",
            "[Matching lines 4 to 6 of 8 in 4 files. Pass offset=6 for the next ones, or narrow the search.]",
            "[Matching lines 7 to 8 of 8 in 4 files.]",
            "[There are only 8 matching lines in 4 files: an offset of 8 is past them.]",
            "[Matching lines 1 to 1 of 8 in 4 files. Pass offset=1 for the next ones, or narrow the search.]",
            "[Files 1 to 2 of 4. Pass offset=2 for the next ones, or narrow the search.]",
            "[Files 3 to 4 of 4.]",
        ]
    )


@engines
def test_what_is_not_text_is_named_and_not_shown(tmp_path: Path, engine: Engine) -> None:
    made(
        tmp_path,
        {
            "a.bin": b"\0\1\2needle\n",
            "b.txt": b"needle \xff \x1b[2J end\n",
            "late.bin": b"needle\n" + b"x\n" * 100_000 + b"\0\nneedle\n",
            "none.bin": b"\0\n",
            "wide.txt": "needle ü\n".encode("utf-16"),
            "mark.txt": b"\xef\xbb\xbfneedle\n",
        },
    )

    assert text(tmp_path, "grep", engine, pattern="^needle") == snapshot("""\
b.txt
1: needle \\xff \\x1b[2J end

late.bin
1: needle
(what follows in this file is no text and was not searched)

mark.txt
1: needle

wide.txt
1: needle ü
[4 matching lines in 4 files.]
[The text holds characters that cannot be seen (\\x1b, \\xff). They are spelled out here.]\
""")
    assert text(tmp_path, "grep", engine, pattern="needle", path="a.bin") == snapshot("""\
a.bin
(matches, but is no text)
[1 matching line in 1 file.]\
""")
    assert text(tmp_path, "grep", engine, pattern="needle", path="none.bin") == snapshot(
        "[Nothing matches.]"
    )


@engines
def test_a_long_line_is_shown_around_its_match(tmp_path: Path, engine: Engine) -> None:
    made(
        tmp_path,
        {
            "1.js": "x" * 5_000 + "needle" + "y" * 5_000,
            "2.js": "needle" + "é" * 5_000,
            "3.js": "é" * 2_000 + "needle",
            "4.js": "é" * 240 + "needle" + "é" * 240,
            "5.js": "x" * 2_000_000 + "needle" + "y" * 2_000_000 + "\nneedle",
        },
    )

    assert text(tmp_path, "grep", engine, pattern="needle") == snapshot("""\
1.js
1: [...]xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxneedleyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy[...]

2.js
1: needleéééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé[...]

3.js
1: [...]éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééneedle

4.js
1: ééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééneedleéééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé

5.js
1: [...]xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxneedleyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy[...]
2: needle
[6 matching lines in 5 files.]
[Long lines are clipped; [...] stands for what is missing.]\
""")


@engines
def test_names_that_mislead_are_quoted(tmp_path: Path, engine: Engine) -> None:
    names = ["a\nb.txt", " lead.txt", "esc\x1b[2J.txt", "tab\t.txt", "--\n./x.txt", "-e.txt"]
    made(tmp_path, dict.fromkeys(names, "needle\n"))
    made(tmp_path / "bytes", {"a.txt": "needle\n"})
    (tmp_path / "bytes/a.txt").rename(tmp_path / "bytes" / "\udcff.txt")

    assert text(tmp_path, "grep", engine, pattern="needle", context=1) == snapshot("""\
" lead.txt"
1: needle

"--\\n./x.txt"
1: needle

-e.txt
1: needle

"a\\nb.txt"
1: needle

"bytes/\\xff.txt"
1: needle

"esc\\u001b[2J.txt"
1: needle

"tab\\t.txt"
1: needle
[7 matching lines in 7 files.]\
""")
    assert text(tmp_path, "grep", engine, pattern="needle", output_mode="files") == snapshot("""\
" lead.txt"
"--\\n./x.txt"
-e.txt
"a\\nb.txt"
"bytes/\\xff.txt"
"esc\\u001b[2J.txt"
"tab\\t.txt"
[7 files.]\
""")


def test_what_was_left_out_is_said_where_nothing_matches(tmp_path: Path) -> None:
    made(tmp_path, IGNORING)

    def told(**args: Any) -> str:
        return text(tmp_path, "grep", pattern="secret_word", **args)

    assert told() == snapshot("""\
[Nothing matches.]
[4 files that ignore rules or a leading dot leave out would match: .env, .github/ci.yml, a.log and others. Pass include_ignored=true and hidden=true to see them.]\
""")
    assert told(glob="*.log") == snapshot("""\
[Nothing matches.]
[1 file that ignore rules or a leading dot leave out would match: a.log. Pass include_ignored=true and hidden=true to see it.]\
""")
    assert told(glob=".env") == snapshot("""\
.env
1: secret_word
[1 matching line in 1 file.]\
""")
    assert told(include_ignored=True) == snapshot("""\
a.log
1: secret_word

build/out.js
1: secret_word
[2 matching lines in 2 files.]\
""")
    assert told(hidden=True) == snapshot("""\
.env
1: secret_word

.github/ci.yml
1: secret_word
[2 matching lines in 2 files.]\
""")
    assert told(hidden=True, include_ignored=True, glob="*.py") == snapshot("[Nothing matches.]")


def test_what_is_named_is_searched_though_rules_leave_it_out(tmp_path: Path) -> None:
    made(tmp_path, IGNORING | {"gen/deep/x.js": "secret_word\n", "gen/.gitignore": "*\n"})

    def told(**args: Any) -> str:
        return text(tmp_path, "grep", pattern="secret_word", **args)

    assert told(path="build") == snapshot("""\
build/out.js
1: secret_word
[1 matching line in 1 file.]\
""")
    assert told(path="a.log") == snapshot("""\
a.log
1: secret_word
[1 matching line in 1 file.]\
""")
    assert told(path=".env") == snapshot("""\
.env
1: secret_word
[1 matching line in 1 file.]\
""")
    assert told(path=".github") == snapshot("""\
.github/ci.yml
1: secret_word
[1 matching line in 1 file.]\
""")
    assert told(path="gen") == snapshot("""\
gen/deep/x.js
1: secret_word
[1 matching line in 1 file.]
[Ignore rules leave out all of this folder. It was searched, since it was named.]\
""")
    assert told(path="gen", glob="*.py") == snapshot("[Nothing matches.]")


def test_what_git_keeps_is_searched_only_if_named(tmp_path: Path) -> None:
    made(tmp_path, {".git/config": "needle\n", "sub/.git/x": "needle\n", ".x": "needle\n"})

    def told(engine: Engine = RIPGREP, **args: Any) -> str:
        return text(tmp_path, "grep", engine, pattern="needle", **args)

    assert told(hidden=True, include_ignored=True) == snapshot("""\
.x
1: needle
[1 matching line in 1 file.]\
""")
    assert told(path=".git") == snapshot("""\
.git/config
1: needle
[1 matching line in 1 file.]\
""")
    assert told(glob=".git/**") == snapshot("""\
.git/config
1: needle
[1 matching line in 1 file.]\
""")


@engines
def test_files_that_are_hidden_by_rules_are_not_told_of(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, {"keys/a.pem": "needle\n", "b.txt": "needle\n", "link/x": "needle\n"})
    (tmp_path / "out").symlink_to("keys")
    options = {"hides": lambda path: path.startswith("keys")}

    def told(name: str = "grep", **args: Any) -> Result:
        return ask(tmp_path, name, engine, options=options, **args)

    seen = [
        told(pattern="needle").text,
        told(pattern="needle", output_mode="count").text,
        told(pattern="needle", glob="*.pem").text,
        told("glob", pattern="**").text,
        told("glob", pattern="keys/*").text,
        told(pattern="needle", path="keys/a.pem").text,
        told(pattern="needle", path="keys/gone").text,
        told(pattern="needle", path="out").text,
    ]
    assert [one.splitlines()[0] for one in seen] == snapshot(
        [
            "b.txt",
            "b.txt: 1",
            "[Nothing matches.]",
            "link/x",
            "[No file matches.]",
            "The rules of this workspace keep 'keys/a.pem' from being searched. The tool refuses this: go about it another way.",
            "The rules of this workspace keep 'keys/gone' from being searched. The tool refuses this: go about it another way.",
            "The rules of this workspace keep 'out' from being searched. The tool refuses this: go about it another way.",
        ]
    )
    assert not any("a.pem" in one for one in seen[:5])


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a)\1",
        "(?<=a)b",
        r"\w{1000}{100}",
        "(" * 1_000 + "a" + ")" * 1_000,
        "(a",
        "*a",
        r"a\nb",
        "a\nb",
        "",
        "x" * 10_001,
    ],
)
def test_a_pattern_that_cannot_be_searched_for_says_what_to_try(
    tmp_path: Path, pattern: str
) -> None:
    result = ask(made(tmp_path, TREE), "grep", pattern=pattern)

    assert result.failure is not None
    assert result.failure.kind is Kind.FAILED
    assert {pattern[:20]: result.text} == {pattern[:20]: WORDS[pattern[:20]]}


WORDS = snapshot(
    {
        "(a)\\1": "The pattern has a backreference such as \\1, which this search does not know. Look for what is repeated in the lines that a simpler pattern finds.",
        "(?<=a)b": "The pattern has a look-ahead or look-behind, which this search does not know. Leave it out, and pick from the lines that are found.",
        "\\w{1000}{100}": "The pattern is too large. Use fewer or smaller repetitions and groups.",
        "((((((((((((((((((((": "The pattern is too large. Use fewer or smaller repetitions and groups.",
        "(a": "The pattern is no regular expression: unclosed group. Put a backslash before characters that are meant as they are, or pass fixed_strings=true.",
        "*a": "The pattern is no regular expression: repetition operator missing expression. Put a backslash before characters that are meant as they are, or pass fixed_strings=true.",
        "a\\nb": "The pattern matches a line break, but a search goes line by line. Pass multiline=true to match across lines.",
        """\
a
b\
""": "The pattern has a line break in it, but a search goes line by line. Search for one of the lines, or pass multiline=true to match across lines.",
        "": "The pattern is empty. To see which files there are, use glob.",
        "xxxxxxxxxxxxxxxxxxxx": "The pattern has more than 10,000 characters. Shorten it.",
    }
)


@engines
def test_matches_across_lines(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, {"a.txt": "one\ntwo\nthree\nfour\none\ntwo\n", "b.txt": "one\r\ntwo\r\n"})

    def told(**args: Any) -> str:
        return text(tmp_path, "grep", engine, **args)

    assert told(pattern="one\ntwo", multiline=True, path="a.txt") == snapshot("""\
a.txt
1: one
2: two
5: one
6: two
[4 matching lines in 1 file.]\
""")
    assert told(pattern="two.*four", multiline=True) == snapshot("""\
a.txt
2: two
3: three
4: four
[3 matching lines in 1 file.]\
""")
    assert told(pattern="^two$") == snapshot("""\
a.txt
2: two
6: two

b.txt
2: two
[3 matching lines in 2 files.]\
""")


@engines
def test_case_plain_text_and_globs(tmp_path: Path, engine: Engine) -> None:
    made(tmp_path, {"a.py": "Foo(x)\n", "b/c.py": "foo.x\n", "b/c.js": "foo(\n"})

    def told(**args: Any) -> list[str]:
        answer = text(tmp_path, "grep", engine, output_mode="files", **args)
        return [line for line in answer.splitlines() if not line.startswith("[")]

    assert told(pattern="foo") == ["b/c.js", "b/c.py"]
    assert told(pattern="FOO", ignore_case=True) == ["a.py", "b/c.js", "b/c.py"]
    assert told(pattern="fo{2}", ignore_case=True) == ["a.py", "b/c.js", "b/c.py"]
    assert told(pattern="foo(", fixed_strings=True) == ["b/c.js"]
    assert told(pattern="foo(", fixed_strings=True, ignore_case=True) == ["a.py", "b/c.js"]
    assert told(pattern="foo.", glob="*.py") == ["b/c.py"]
    assert told(pattern="foo.", glob="b/*.{py,js}") == ["b/c.js", "b/c.py"]
    assert told(pattern="foo.", glob="!*.js") == ["b/c.py"]
    assert told(pattern="-e") == []


def test_types_are_known_to_ripgrep(tmp_path: Path) -> None:
    made(tmp_path, {"a.py": "foo\n", "b.js": "foo\n", "c/d.py": "foo\n"})

    assert text(tmp_path, "grep", pattern="foo", type="py", output_mode="files") == snapshot("""\
a.py
c/d.py
[2 files.]\
""")
    assert text(tmp_path, "grep", pattern="foo", type="py", glob="c/*") == snapshot("""\
c/d.py
1: foo
[1 matching line in 1 file.]\
""")
    assert text(tmp_path, "grep", pattern="foo", type="nosuch") == snapshot(
        "There is no such type of file. Leave type out, and pass a glob such as '*.py' instead."
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"limit": 0}, "limit is 0, but has to be from 1 to 1,000."),
        ({"limit": 2**70}, f"limit is {2**70}, but has to be from 1 to 1,000."),
        ({"offset": -1}, "offset is -1, but has to be from 0 to 100,000."),
        ({"context": 51}, "context is 51, but has to be from 0 to 50."),
        (
            {"path": "../x"},
            "'../x' leads out of the workspace. Use a path relative to the workspace. The tool refuses this: go about it another way.",
        ),
        ({"path": "gone"}, "'gone' is not there. Use glob to find it."),
        (
            {"glob": "/etc/*"},
            "The glob pattern '/etc/*' begins at the root of the machine. Begin it at the folder that is searched, and name that folder in path.",
        ),
        (
            {"glob": "../*"},
            "The glob pattern '../*' has '..' in it. Name the folder to search in path instead.",
        ),
    ],
)
def test_arguments_that_cannot_be_meant(tmp_path: Path, args: dict[str, Any], words: str) -> None:
    assert ask(tmp_path, "grep", pattern="x", **args).text == words


def test_a_link_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    made(tmp_path, {"out/a.txt": "needle\n", "ws/b.txt": "needle\n"})
    (tmp_path / "ws/link").symlink_to("../out")
    (tmp_path / "ws/file").symlink_to("../out/a.txt")
    (tmp_path / "ws/inner").symlink_to("b.txt")
    (tmp_path / "ws/loop").symlink_to(".")

    assert text(tmp_path / "ws", "grep", pattern="needle", hidden=True) == snapshot("""\
b.txt
1: needle
[1 matching line in 1 file.]\
""")
    assert text(tmp_path / "ws", "grep", pattern="needle", path="inner") == snapshot("""\
b.txt
1: needle
[1 matching line in 1 file.]\
""")
    assert ask(tmp_path / "ws", "grep", pattern="needle", path="link").failure is not None


async def test_on_both_loops(tmp_path: Path) -> None:
    made(tmp_path, TREE)

    async with Executor(tools(tmp_path)) as executor:
        calls = [Call("grep", {"pattern": "main"}, str(n)) for n in range(5)]
        results = await executor.run_all(calls)

    assert {result.text.splitlines()[-1] for result in results} == {
        "[4 matching lines in 3 files.]"
    }
