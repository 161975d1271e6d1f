"""grep: what a model sees of files that match, and of those that were left out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail import Call, Executor, FailureKind, Result
from handrail.policy import Rulebook, builtin_rules
from handrail.tools import Workspace, grep, hide_denied
from tools.search.stage import ask, made, text, tools

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
Search file contents with a regular expression and return the matching lines.

Use it to find where something is used or defined. Skips hidden files and files matched by .gitignore unless path names them or you set hidden or include_ignored.\
""")
    assert spec.input_schema == snapshot(
        {
            "type": "object",
            "properties": {
                "pattern": {
                    "type": "string",
                    "description": "Regular expression, without look-around and backreferences.",
                },
                "path": {
                    "type": "string",
                    "description": "File or folder to search, without wildcards.",
                    "default": ".",
                },
                "glob": {
                    "type": "string",
                    "description": 'Search only matching files, such as "*.py" or "src/**/*.ts"; "!*.min.js" excludes files.',
                    "default": "",
                },
                "type": {
                    "type": "string",
                    "description": 'Search only files of this type, such as "py", "js" or "rust".',
                    "default": "",
                },
                "output_mode": {
                    "type": "string",
                    "description": '"content" for matching lines, "files" for file names, "count" for the number of matching lines per file.',
                    "enum": ["content", "files", "count"],
                    "default": "content",
                },
                "context": {
                    "type": "integer",
                    "description": "Lines to show before and after each match, at most 50.",
                    "default": 0,
                },
                "before": {
                    "type": "integer",
                    "description": "Lines before each match, if not context.",
                    "default": 0,
                },
                "after": {
                    "type": "integer",
                    "description": "Lines after each match, if not context.",
                    "default": 0,
                },
                "ignore_case": {
                    "type": "boolean",
                    "description": "Ignore case.",
                    "default": False,
                },
                "multiline": {
                    "type": "boolean",
                    "description": 'Let matches span lines; "." also matches line breaks.',
                    "default": False,
                },
                "fixed_strings": {
                    "type": "boolean",
                    "description": "Treat the pattern as plain text.",
                    "default": False,
                },
                "include_ignored": {
                    "type": "boolean",
                    "description": "Also search files matched by .gitignore and similar.",
                    "default": False,
                },
                "hidden": {
                    "type": "boolean",
                    "description": "Also search files with a leading dot in their path.",
                    "default": False,
                },
                "limit": {
                    "type": "integer",
                    "description": "Matching lines (or files) to show, at most 1000.",
                    "default": 250,
                },
                "offset": {
                    "type": "integer",
                    "description": "Matching lines (or files) to skip, for the next page.",
                    "default": 0,
                },
            },
            "required": ["pattern"],
            "additionalProperties": False,
        }
    )


def test_lines_are_grouped_by_file_and_sorted_by_path(tmp_path: Path) -> None:
    made(tmp_path, TREE)

    assert text(tmp_path, "grep", pattern="main|run") == snapshot("""\
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


def test_lines_around_a_match_are_shown_as_such(tmp_path: Path) -> None:
    made(tmp_path, {"a.txt": "".join(f"line {n}\n" for n in range(1, 21))})

    assert text(tmp_path, "grep", pattern="line (5|7|15)$", context=1) == snapshot("""\
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
[3 matching lines in 1 file (20 lines).]\
""")
    assert text(tmp_path, "grep", pattern="line 5$", before=2) == snapshot("""\
a.txt
3- line 3
4- line 4
5: line 5
[1 matching line in 1 file (20 lines).]\
""")
    assert text(tmp_path, "grep", pattern="line 5$", after=1, before=1) == snapshot("""\
a.txt
4- line 4
5: line 5
6- line 6
[1 matching line in 1 file (20 lines).]\
""")


def test_files_and_counts_can_be_asked_for(tmp_path: Path) -> None:
    made(tmp_path, TREE)

    assert text(tmp_path, "grep", pattern="main", output_mode="files") == snapshot("""\
README.md
src/app.py
src-old/app.py
[3 files.]\
""")
    assert text(tmp_path, "grep", pattern="main", output_mode="count") == snapshot("""\
README.md: 1
src/app.py: 2
src-old/app.py: 1
[3 files, 4 matching lines.]\
""")


@pytest.mark.parametrize("mode", ["content", "files", "count"])
def test_pages_put_together_are_the_whole(tmp_path: Path, mode: str) -> None:
    made(tmp_path, {f"{n}.txt": "hit\nno\nhit\n" for n in range(7)})
    whole = text(tmp_path, "grep", pattern="hit", output_mode=mode)
    total = 14 if mode == "content" else 7
    pages = [
        text(tmp_path, "grep", pattern="hit", output_mode=mode, limit=3, offset=at)
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


def test_a_page_says_how_to_see_the_next(tmp_path: Path) -> None:
    made(tmp_path, {f"{n}.txt": "hit\nhit\n" for n in range(4)})

    def page(**args: Any) -> str:
        return text(tmp_path, "grep", pattern="hit", **args).splitlines()[-1]

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
            "[Matching lines 1 to 3 of 8 in 4 files. For more, pass offset=3 or narrow the search.]",
            "[Matching lines 4 to 6 of 8 in 4 files. For more, pass offset=6 or narrow the search.]",
            "[Matching lines 7 to 8 of 8 in 4 files.]",
            "[offset=8 is past the end of 8 matching lines in 4 files.]",
            "[Matching lines 1 to 1 of 8 in 4 files. For more, pass offset=1 or narrow the search.]",
            "[Files 1 to 2 of 4. For more, pass offset=2 or narrow the search.]",
            "[Files 3 to 4 of 4.]",
        ]
    )


def test_what_is_not_text_is_named_and_not_shown(tmp_path: Path) -> None:
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

    assert text(tmp_path, "grep", pattern="^needle") == snapshot("""\
b.txt
1: needle \\xff \\x1b[2J end

late.bin
1: needle
(the rest of this file is binary and was not searched)

mark.txt
1: needle

wide.txt
1: needle ü
[4 matching lines in 4 files.]
[The text has invisible characters (\\x1b, \\xff). They are spelled out here.]\
""")
    assert text(tmp_path, "grep", pattern="needle", path="a.bin") == snapshot("""\
a.bin
(binary file matches)
[1 matching line in 1 file.]\
""")
    assert text(tmp_path, "grep", pattern="needle", path="none.bin") == snapshot("[No matches.]")


def test_a_long_line_is_shown_around_its_match(tmp_path: Path) -> None:
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

    assert text(tmp_path, "grep", pattern="needle") == snapshot("""\
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
[Long lines are clipped at [...].]\
""")


def test_names_that_mislead_are_quoted(tmp_path: Path) -> None:
    names = ["a\nb.txt", " lead.txt", "esc\x1b[2J.txt", "tab\t.txt", "--\n./x.txt", "-e.txt"]
    made(tmp_path, dict.fromkeys(names, "needle\n"))
    made(tmp_path / "bytes", {"a.txt": "needle\n"})
    (tmp_path / "bytes/a.txt").rename(tmp_path / "bytes" / "\udcff.txt")

    assert text(tmp_path, "grep", pattern="needle", context=1) == snapshot("""\
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
    assert text(tmp_path, "grep", pattern="needle", output_mode="files") == snapshot("""\
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
[No matches.]
[4 ignored or hidden files would match: .env, .github/ci.yml, a.log and others. Pass include_ignored=true and hidden=true to see them.]\
""")
    assert told(glob="*.log") == snapshot("""\
[No matches.]
[1 ignored or hidden file would match: a.log. Pass include_ignored=true and hidden=true to see it.]\
""")
    assert told(glob=".env") == snapshot("""\
.env
1: secret_word
[1 matching line in 1 file (1 line).]\
""")
    assert told(include_ignored=True) == snapshot("""\
a.log
1: secret_word

build/out.js
1: secret_word
[2 matching lines in 2 files (1 and 1 lines).]\
""")
    assert told(hidden=True) == snapshot("""\
.env
1: secret_word

.github/ci.yml
1: secret_word
[2 matching lines in 2 files (1 and 1 lines).]\
""")
    assert told(hidden=True, include_ignored=True, glob="*.py") == snapshot("[No matches.]")


def test_what_is_named_is_searched_though_rules_leave_it_out(tmp_path: Path) -> None:
    made(tmp_path, IGNORING | {"gen/deep/x.js": "secret_word\n", "gen/.gitignore": "*\n"})

    def told(**args: Any) -> str:
        return text(tmp_path, "grep", pattern="secret_word", **args)

    assert told(path="build") == snapshot("""\
build/out.js
1: secret_word
[1 matching line in 1 file (1 line).]\
""")
    assert told(path="a.log") == snapshot("""\
a.log
1: secret_word
[1 matching line in 1 file (1 line).]\
""")
    assert told(path=".env") == snapshot("""\
.env
1: secret_word
[1 matching line in 1 file (1 line).]\
""")
    assert told(path=".github") == snapshot("""\
.github/ci.yml
1: secret_word
[1 matching line in 1 file (1 line).]\
""")
    assert told(path="gen") == snapshot("""\
gen/deep/x.js
1: secret_word
[1 matching line in 1 file (1 line).]
[Ignore rules exclude this whole folder; it was searched because you named it.]\
""")
    assert told(path="gen", glob="*.py") == snapshot("[No matches.]")


def test_what_git_keeps_is_searched_only_if_named(tmp_path: Path) -> None:
    made(tmp_path, {".git/config": "needle\n", "sub/.git/x": "needle\n", ".x": "needle\n"})

    def told(**args: Any) -> str:
        return text(tmp_path, "grep", pattern="needle", **args)

    assert told(hidden=True, include_ignored=True) == snapshot("""\
.x
1: needle
[1 matching line in 1 file (1 line).]\
""")
    assert told(path=".git") == snapshot("""\
.git/config
1: needle
[1 matching line in 1 file (1 line).]\
""")
    assert told(glob=".git/**") == snapshot("""\
.git/config
1: needle
[1 matching line in 1 file (1 line).]\
""")


def test_files_that_are_hidden_by_rules_are_not_told_of(tmp_path: Path) -> None:
    made(tmp_path, {"keys/a.pem": "needle\n", "b.txt": "needle\n", "link/x": "needle\n"})
    (tmp_path / "out").symlink_to("keys")
    options = {"hides": lambda path: path.startswith("keys")}

    def told(name: str = "grep", **args: Any) -> Result:
        return ask(tmp_path, name, options=options, **args)

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
            "[No matches.]",
            "link/x",
            "[No file matches.]",
            "Not run: the rules deny reading 'keys/a.pem'. Do not work around this. Continue without it, or tell the user.",
            "Not run: the rules deny reading 'keys/gone'. Do not work around this. Continue without it, or tell the user.",
            "Not run: the rules deny reading 'out'. Do not work around this. Continue without it, or tell the user.",
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
    assert result.failure.kind is FailureKind.FAILED
    assert {pattern[:20]: result.text} == {pattern[:20]: WORDS[pattern[:20]]}


WORDS = snapshot(
    {
        "(a)\\1": "Backreferences such as \\1 are not supported. Use a simpler pattern, and compare the matching lines.",
        "(?<=a)b": "Look-ahead and look-behind are not supported. Remove them, and choose among the matching lines.",
        "\\w{1000}{100}": "The pattern is too large. Use fewer or smaller repetitions and groups.",
        "((((((((((((((((((((": "The pattern is too large. Use fewer or smaller repetitions and groups.",
        "(a": "The pattern is not a valid regular expression: unclosed group. Escape special characters with a backslash, or pass fixed_strings=true.",
        "*a": "The pattern is not a valid regular expression: repetition operator missing expression. Escape special characters with a backslash, or pass fixed_strings=true.",
        "a\\nb": "The pattern matches a line break, but the search goes line by line. Pass multiline=true to match across lines.",
        """\
a
b\
""": "The pattern contains a line break, but the search goes line by line. Search for one line, or pass multiline=true to match across lines.",
        "": "The pattern is empty. To list files, use glob.",
        "xxxxxxxxxxxxxxxxxxxx": "The pattern has more than 10,000 characters. Shorten it.",
    }
)


def test_matches_across_lines(tmp_path: Path) -> None:
    made(tmp_path, {"a.txt": "one\ntwo\nthree\nfour\none\ntwo\n", "b.txt": "one\r\ntwo\r\n"})

    def told(**args: Any) -> str:
        return text(tmp_path, "grep", **args)

    assert told(pattern="one\ntwo", multiline=True, path="a.txt") == snapshot("""\
a.txt
1: one
2: two
5: one
6: two
[4 matching lines in 1 file (6 lines).]\
""")
    assert told(pattern="two.*four", multiline=True) == snapshot("""\
a.txt
2: two
3: three
4: four
[3 matching lines in 1 file (6 lines).]\
""")
    assert told(pattern="^two$") == snapshot("""\
a.txt
2: two
6: two

b.txt
2: two
[3 matching lines in 2 files (6 and 2 lines).]\
""")


def test_case_plain_text_and_globs(tmp_path: Path) -> None:
    made(tmp_path, {"a.py": "Foo(x)\n", "b/c.py": "foo.x\n", "b/c.js": "foo(\n"})

    def told(**args: Any) -> list[str]:
        answer = text(tmp_path, "grep", output_mode="files", **args)
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
[1 matching line in 1 file (1 line).]\
""")
    assert text(tmp_path, "grep", pattern="foo", type="nosuch") == snapshot(
        "There is no file type 'nosuch'. Pass a glob such as '*.py' instead."
    )


def test_a_pattern_that_would_match_as_plain_text_says_so(tmp_path: Path) -> None:
    made(tmp_path, {"a.txt": "$9.99 (incl. tax) [net]\n", "b/c.txt": "f(x)\n", "d.log": "a+b\n"})
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    calls: list[dict[str, Any]] = [
        {"pattern": "$9.99 (incl. tax) [net]"},
        {"pattern": "$9.99 (incl. tax) [net]", "path": "a.txt"},
        {"pattern": "f(x)"},
        {"pattern": "f(x)", "path": "a.txt"},
        {"pattern": "f(x)", "fixed_strings": True, "path": "a.txt"},
        {"pattern": "nothing"},
        {"pattern": "a+b"},
    ]

    assert [text(tmp_path, "grep", **args) for args in calls] == snapshot(
        [
            """\
[No matches.]
[As plain text it would match in a.txt: pass fixed_strings=true.]\
""",
            """\
[No matches.]
[As plain text it would match in a.txt: pass fixed_strings=true.]\
""",
            """\
[No matches.]
[As plain text it would match in b/c.txt: pass fixed_strings=true.]\
""",
            "[No matches.]",
            "[No matches.]",
            "[No matches.]",
            "[No matches.]",
        ]
    )


def test_a_path_with_a_wildcard_belongs_into_glob(tmp_path: Path) -> None:
    made(tmp_path, {"src/a.py": "x\n", "[1].txt": "x\n"})

    paths = ("src/*.py", "s*/", "s[r]c", "[1].txt")

    told = [ask(tmp_path, "grep", pattern="x", path=path).text for path in paths]

    assert told == snapshot(
        [
            "path takes no wildcards: pass glob='src/*.py'.",
            "path takes no wildcards: pass glob='s*/'.",
            "path takes no wildcards: pass glob='s[r]c/**'.",
            """\
[1].txt
1: x
[1 matching line in 1 file (1 line).]\
""",
        ]
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"limit": 0}, "limit must be from 1 to 1000, got 0."),
        ({"limit": 2**70}, f"limit must be from 1 to 1000, got {2**70}."),
        ({"offset": -1}, "offset must be from 0 to 100000, got -1."),
        ({"context": 51}, "context must be from 0 to 50, got 51."),
        (
            {"path": "../x"},
            "Not run: '../x' is outside the workspace. Use a path inside it.",
        ),
        ({"path": "gone"}, "'gone' does not exist. Use glob to find it."),
        (
            {"glob": "/etc/*"},
            "The glob pattern '/etc/*' is absolute. Make it relative to the folder in path.",
        ),
        (
            {"glob": "../*"},
            "The glob pattern '../*' contains '..'. Pass the folder to search as path instead.",
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
[1 matching line in 1 file (1 line).]\
""")
    assert text(tmp_path / "ws", "grep", pattern="needle", path="inner") == snapshot("""\
b.txt
1: needle
[1 matching line in 1 file (1 line).]\
""")
    assert ask(tmp_path / "ws", "grep", pattern="needle", path="link").failure is not None


async def test_on_both_loops(tmp_path: Path) -> None:
    made(tmp_path, TREE)

    async with Executor(tools(tmp_path)) as executor:
        calls = [Call("grep", {"pattern": "main"}, str(n)) for n in range(5)]
        results = await executor.run_all(calls)

    assert {result.text.splitlines()[-1] for result in results} == {
        "[4 matching lines in 3 files (1, 6 and 1 lines).]"
    }


def test_a_file_that_needs_approval_is_left_out_and_named(tmp_path: Path) -> None:
    root = made(tmp_path, {**IGNORING, "src/b.py": "secret_word\n"})
    options = {"hides": hide_denied(Rulebook(builtin_rules("read_only")))}
    searches: list[dict[str, Any]] = [
        {"glob": ".env"},
        {"output_mode": "files", "include_ignored": True, "hidden": True},
        {"output_mode": "count", "glob": "{.env,src/b.py}"},
        {"path": ".env"},
        {"glob": "*.md"},
    ]

    assert [
        text(root, "grep", options=options, pattern="secret_word", **search) for search in searches
    ] == snapshot(
        [
            """\
[No matches.]
[1 file is left out: reading it needs approval: .env]\
""",
            """\
.github/ci.yml
a.log
build/out.js
src/b.py
[4 files.]
[1 file is left out: reading it needs approval: .env]\
""",
            """\
src/b.py: 1
[1 file, 1 matching line.]
[1 file is left out: reading it needs approval: .env]\
""",
            """\
.env
1: secret_word
[1 matching line in 1 file (1 line).]\
""",
            "[No matches.]",
        ]
    )


@pytest.mark.parametrize("listed", ["by the rules", "one by one"])
def test_what_is_left_out_does_not_depend_on_what_is_in_it(tmp_path: Path, listed: str) -> None:
    """Otherwise a model could guess a secret, letter by letter."""
    files = {".env": "KEY=canary\n", "keys/a.pem": "canary\n", "b.pem": "x\n", "c.py": "canary\n"}
    root = made(tmp_path, {**files, "ignored/d.pem": "canary", ".gitignore": "ignored\n"})
    policy = Rulebook(builtin_rules("read_only"))
    hides = hide_denied(policy if listed == "by the rules" else policy.__call__)
    searches: list[dict[str, Any]] = [
        {},
        {"path": "keys"},
        {"path": "ignored"},
        {"type": "py"},
        {"hidden": True, "glob": "*.pem"},
        {"hidden": True, "include_ignored": True, "output_mode": "count"},
    ]
    notes = [
        [
            text(root, "grep", options={"hides": hides}, pattern=pattern, **search).splitlines()[-1]
            for search in searches
        ]
        for pattern in ("canary", "KEY=c", "nothing")
    ]

    assert notes[0] == snapshot(
        [
            "[2 files are left out: reading them needs approval: b.pem, keys/a.pem]",
            "[1 file is left out: reading it needs approval: keys/a.pem]",
            "[1 file is left out: reading it needs approval: ignored/d.pem]",
            "[1 matching line in 1 file (1 line).]",
            "[2 files are left out: reading them needs approval: b.pem, keys/a.pem]",
            "[4 files are left out: reading them needs approval: .env, b.pem, ignored/d.pem and others]",
        ]
    )
    assert [[note for note in noted if "left out" in note] for noted in notes[1:]] == [
        [note for note in notes[0] if "left out" in note]
    ] * 2


def test_many_files_that_need_approval_are_counted(tmp_path: Path) -> None:
    root = made(tmp_path, {f"keys/{name}.pem": "secret_word\n" for name in "abcd"})
    options = {"hides": lambda path: "ask" if path.endswith(".pem") else False}

    assert text(root, "grep", options=options, pattern="secret_word") == snapshot("""\
[No matches.]
[4 files are left out: reading them needs approval: keys/a.pem, keys/b.pem, keys/c.pem and others]\
""")
    assert text(root, "glob", options=options, pattern="**/a.pem") == snapshot("""\
keys/a.pem
[1 file.]\
""")


def test_binary_files_are_named_if_nothing_else_matches(tmp_path: Path) -> None:
    made(tmp_path, {"a.dat": b"\0\1" * 50_000 + b"price\n", "b/c.dat": b"\0price", "d.dat": b"\0x"})
    made(tmp_path, {"large.dat": b"\0price", "sparse.dat": b"\0price"})
    os.truncate(tmp_path / "large.dat", 11 * 1024 * 1024)
    os.truncate(tmp_path / "sparse.dat", 1 << 40)

    assert text(tmp_path, "grep", pattern="price") == snapshot("""\
[No matches.]
[2 binary files match: a.dat, b/c.dat.]\
""")
    assert text(tmp_path, "grep", pattern="price", path="b", output_mode="count") == snapshot("""\
[No matches.]
[1 binary file matches: b/c.dat.]\
""")
    assert text(tmp_path, "grep", pattern="nothing") == snapshot("[No matches.]")
    made(tmp_path, {"e.txt": b"price\n"})
    assert text(tmp_path, "grep", pattern="price") == snapshot("""\
e.txt
1: price
[1 matching line in 1 file (1 line).]\
""")
