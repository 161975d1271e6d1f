"""Commands as rules name them: what is not listed is not meant, however it is spelled."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.policy import InvalidRule
from policy.rule_tables import read_rule

INF = float("inf")
KINDS = (
    "text", "path", "file", "subpath", "dot_path", "number", "name", "word", "assignment", "sed_lines", "jq_filter", "revision",
    "git_format",
)  # fmt: skip

Words = tuple[tuple[str, str], ...]
"""The kinds of words, and the words."""


class Command:
    """A command as a rule that allows it names it."""

    def __init__(self, *words: str, **keys: Any) -> None:
        [self.named] = read_rule(decide="allow", command=[words], **keys).commands

    def read(self, *words: str) -> Words | None:
        """The words after the command's own, where the rule means them."""
        return self.named.read_words([*self.named.words, *words])


def takes(kind: str, value: str) -> bool:
    return Command("x", operands=[kind], getopt=True).read("--", value) == ((kind, value),)


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["", "a b", "-x", "/etc/passwd", "../x", "$(x)\n"]),
        ("path", ["a", "a/b.py", "./a", "a/..b", "...", "", "-", "/dev/null", "a b"]),
        ("file", ["a", "a/b.py", "./-x", "..a"]),
        ("subpath", ["./a", "./a/b-c.py", "./..a", "./", "a/", "tests/a.py", "a-b/c"]),
        ("dot_path", ["./a", "./a/b-c.py", "./"]),
        ("number", ["0", "12", "-1", "+3"]),
        ("name", ["a", "a.b", "x@1", "a-b", "a:b", "+x", "1", ".a", "a..b", "..."]),
        ("assignment", ["A=1", "a=", "_x=a=b", "a=/etc\n"]),
        ("sed_lines", ["1p", "1,20p", "$p", "2,$p", "5,+3p"]),
        ("path", ["a:b", "a=b", "HEAD:a", "a@b", "main..next", "a/b.py::T::t"]),
        ("word", ["a", "term-missing", "_1"]),
        ("jq_filter", [".", ".imports[0]", "keys | .[] # included", "/etc"]),
        ("revision", ["a", "@", "@{u}", "@~2", "HEAD:a/b", "main...next", "", "-"]),
        ("git_format", ["%H", "format:%h %an (%ar)", "%(refname:short)", "G%g"]),
    ],
)
def test_a_kind_takes_what_it_says(kind: str, values: list[str]) -> None:
    assert {one: takes(kind, one) for one in values} == dict.fromkeys(values, True)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (
            "path",
            [
                "/",
                "/etc",
                "~",
                "~root/x",
                "..",
                "../a",
                "a/..",
                "a/../b",
                "https://x.test/y",
                "/dev/nullx",
                "@a",
                "@/etc/x",
                "file:/a",
                "file:../a",
                "x @ file:/a",
                "xml:~/a",
                "a=/b",
                ":/a",
            ],
        ),
        ("file", ["@a", "", "-", "-x", "/dev/null", "/a", "../a", "~", "git://x"]),
        (
            "subpath",
            [
                "",
                "a",
                "-a.py",
                "-",
                "..",
                ".",
                "/a",
                "../a",
                "./../a",
                "~/a",
                "a://b",
                "status",
                "./a b",
                "./a:b",
                "x@./a",
                "-/a",
                "./é",
                "./a\n",
                ".shell x",
            ],
        ),
        ("dot_path", ["", "a", "a/b", ".", "..", "./../a", "/a", "./a b", "./a:b", "-./a"]),
        ("number", ["", "-", "+", "--1", "++1", "1.5", "1e3", "0x1", "1 ", " 1", "a", "²", "+-5"]),
        ("name", ["", "a/b", "-a", "a b", "a\n", "a=b", "~", "ä", "*"]),
        ("name", ["..", ".", "@x"]),
        ("word", ["", "a.b", "a:b", "-a", "a/b", "a\n", "."]),
        ("jq_filter", ['import "a" as $a; .', 'include "a"; .', '"a" | modulemeta', "1\nimport"]),
        ("revision", ["/a", "../a", "HEAD:../a", ":/a", "a://b", "~"]),
        ("git_format", ["%GG", "%G?", "%+GS", "%-GS", "% GS", "%(signature)", "%(*signature:key)"]),
        ("assignment", ["A", "=1", "1A=1", "-A=1", "a b=c"]),
        (
            "sed_lines",
            ["", "p", "1", "1,p", "1,2d", "1p;w x", "1,2p\n", "/a/p", "1,2 p", "w x", "1e ls"],
        ),
    ],
)
def test_a_kind_refuses_what_it_does_not_say(kind: str, values: list[str]) -> None:
    assert {one: takes(kind, one) for one in values} == dict.fromkeys(values, False)


# ---------------------------------------------------------------- as they are written


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("-l", ("-l", "", "text")),
        ("-#", ("-#", "", "text")),
        ("-n:number", ("-n", ":", "number")),
        ("--format=text", ("--format", "=", "text")),
        ("--format=", ("--format", "=", "text")),
        ("--cov:", ("--cov", ":", "text")),
        ("--no-pager", ("--no-pager", "", "text")),
        ("-name:text", ("-name", ":", "text")),
        ("--a.b_c-d:file", ("--a.b_c-d", ":", "file")),
    ],
)
def test_a_flag_is_read_as_it_is_written(text: str, made: tuple[str, str, str]) -> None:
    assert Command("x", flags=[text]).named.flags == (made,)


@pytest.mark.parametrize(
    "text",
    ["", "-", "--", "l", "---x", "-l ", "-l:path?", "--a b", "-é", "-x::", "-n:Number", "-a\n"],
)
def test_what_is_no_flag_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Command("x", flags=[text])

    assert str(caught.value) == (
        f"r.toml:1: invalid flag {text!r}; write '-l', '-n:number' or '--format=text'"
    )


def test_a_flag_of_no_known_kind_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(InvalidRule) as caught:
        Command("x", flags=["-n:int"])

    assert str(caught.value) == (
        "r.toml:1: flag '-n:int': unknown kind 'int'; use one of text, path, file, subpath, dot_path, number, name, word, assignment, sed_lines, jq_filter, revision, git_format"
    )


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("path", ("path", 1, 1)),
        ("path?", ("path", 0, 1)),
        ("path*", ("path", 0, INF)),
        ("path+", ("path", 1, INF)),
    ],
)
def test_an_operand_is_read_as_it_is_written(text: str, made: tuple[str, int, float]) -> None:
    assert Command("x", operands=[text]).named.operands == (made,)


@pytest.mark.parametrize("text", ["", "*", "paths", "path *", "*path", "Path"])
def test_an_operand_of_an_unknown_kind_is_refused_with_all_kinds(text: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Command("x", operands=[text])

    assert str(caught.value) == (
        f"r.toml:1: operand {text!r}: unknown kind {text.rstrip('*')!r}; use one of text, path, "
        "file, subpath, dot_path, number, name, word, assignment, sed_lines, jq_filter, revision, git_format"
    )


@pytest.mark.parametrize("text", ["path**", "path?*"])
def test_an_operand_has_one_sign_for_how_often_it_occurs(text: str) -> None:
    with pytest.raises(InvalidRule) as caught:
        Command("x", operands=[text])

    assert str(caught.value) == (
        f"r.toml:1: invalid operand {text!r}; write 'path', 'path?', 'path*' or 'path+'"
    )


# ---------------------------------------------------------------- words


def test_a_command_without_flags_and_operands_means_its_words_alone() -> None:
    rule = Command("npm", "test")

    assert rule.read() == ()
    assert [
        rule.named.read_words(argv)
        for argv in (
            ["npm"], ["npm", "tests"], ["npm", "test", "x"], ["npm", "test", "-x"], ["npm", "-x", "test"],
            ["npm", "test", "--"], ["npm", "test", "-"], ["npm", "test", ""], ["/bin/npm", "test"], [],
        )
    ] == [None] * 10  # fmt: skip


def test_a_command_with_any_flags_and_operands_names_every_value_that_may_be_a_path() -> None:
    rule = Command("grep", flags="any", operands="any")

    assert rule.read("-r", "--file=.env", "x", "a/b", "--", "-c") == (
        ("path", ""),
        ("path", ".env"),
        ("path", "x"),
        ("path", "a/b"),
        ("path", "-c"),
    )


def test_with_any_flags_a_value_that_is_glued_to_one_is_named_too() -> None:
    rule = Command("grep", flags="any", operands="any")

    assert ("path", ".env") in (rule.read("-f.env", "x") or ())


def test_with_any_flags_a_value_that_is_glued_to_several_is_named_too() -> None:
    rule = Command("grep", flags="any", operands="any")

    assert ("path", ".env") in (rule.read("-if.env", "x") or ())


# ---------------------------------------------------------------- flags

GIT_LOG = Command(
    "git", "log",
    flags=("-p", "-q", "-n:number", "-#", "-S:text", "--oneline", "--stat", "--stat=text", "--format=text", "--since:text", "-O:file"),
    operands=("path*",),
    getopt=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["-p"], ()),
        (["-pq"], ()),
        (["-qpn5"], (("number", "5"),)),
        (["-qpn", "5"], (("number", "5"),)),
        (["-n", "5"], (("number", "5"),)),
        (["-n5", "a"], (("number", "5"), ("path", "a"))),
        (["-n", "-5"], (("number", "-5"),)),
        (["-20"], ()),
        (["-Sabc"], (("text", "abc"),)),
        (["-Sa=b"], (("text", "a=b"),)),
        (["-S", ""], (("text", ""),)),
        (["--stat"], ()),
        (["--stat=80"], (("text", "80"),)),
        (["--format=%H"], (("text", "%H"),)),
        (["--format="], (("text", ""),)),
        (["--since", "a week"], (("text", "a week"),)),
        (["--since=a week"], (("text", "a week"),)),
        (["a", "-p", "b"], (("path", "a"), ("path", "b"))),
        (["--", "-p", "--output=x"], (("path", "-p"), ("path", "--output=x"))),
        (["-"], (("path", "-"),)),
        (["-O", "orders"], (("file", "orders"),)),
        (["--", "--"], (("path", "--"),)),
    ],
)
def test_listed_flags_and_their_values_are_read(words: list[str], read: Words) -> None:
    assert GIT_LOG.read(*words) == read


@pytest.mark.parametrize(
    "words",
    [
        ["-x"], ["-px"], ["-xp"], ["--output=x"], ["--output", "x"], ["--onelin"], ["--oneline=x"], ["-p=x"],
        ["-n"], ["-n", "x"], ["-nx"], ["-n=5"], ["-pn"], ["-p-q"], ["--format"], ["--format", "x"], ["--since"],
        ["--stat80"], ["-20a"], ["--20"], ["-O/etc/x"], ["-O", "/etc/x"], ["-O-"], ["/etc/passwd"], ["../x"], ["--", "../x"],
        ["---"], ["--=x"], ["-=x"], ["a", "~"],
    ],
)  # fmt: skip
def test_what_is_not_listed_is_not_meant(words: list[str]) -> None:
    assert GIT_LOG.read(*words) is None


@pytest.mark.parametrize("words", [["-S", "-p"], ["--since", "--output=x"], ["-pS", "--output=x"]])
def test_a_value_of_its_own_never_begins_with_a_dash(words: list[str]) -> None:
    # Some parsers would take it for the next flag, and it would have passed unseen.
    assert GIT_LOG.read(*words) is None


def test_a_flag_with_one_dash_and_several_letters_may_take_a_value_either_way() -> None:
    rule = Command("go", "test", flags=("-run:text", "-count=number", "-v"))

    assert [
        rule.read(*words)
        for words in (["-run", "X"], ["-run=X"], ["-count=1"], ["-count", "1"], ["-v=1"], ["-runX"])
    ] == [(("text", "X"),), (("text", "X"),), (("number", "1"),), None, None, None]


def test_a_flag_that_may_stand_with_and_without_a_value_takes_none_from_the_next_word() -> None:
    rule = Command("x", flags=("-c", "-c:text", "--color", "--color=name"), getopt=True)

    assert [
        rule.read(*words)
        for words in (["-c"], ["-cc"], ["-c", "a"], ["--color=a"], ["--color", "a"], ["-ca"])
    ] == [(), (), None, (("name", "a"),), None, None]


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["-p", "-q"], ()),
        (["-n", "5", "a"], (("number", "5"), ("path", "a"))),
        (["-20"], ()),
        (["--since=a week", "--stat"], (("text", "a week"),)),
        (["a", "-"], (("path", "a"), ("path", "-"))),
        (["--", "a"], None),
        (["a", "--"], None),
        (["-pq"], None),
        (["-n5"], None),
        (["-Sabc"], None),
        (["-pS", "a"], None),
    ],
)
def test_each_flag_is_its_own_word_unless_the_program_is_known_to_use_getopt(
    words: list[str], read: Words | None
) -> None:
    rule = Command(
        "x",
        flags=("-p", "-q", "-n:number", "-#", "-S:text", "--stat", "--since:text"),
        operands=("path*",),
    )
    assert rule.read(*words) == read


def test_a_flag_after_the_dashes_is_text_where_the_rule_takes_text() -> None:
    assert Command("npm", "test", operands=("text*",)).read("--", "--ci") == (("text", "--ci"),)
    assert Command("npm", "run", operands=("path", "text*")).read("--", "--ci") is None


# ---------------------------------------------------------------- operands


@pytest.mark.parametrize(
    ("operands", "words", "read"),
    [
        (("path",), [], None),
        (("path",), ["a"], ("path",)),
        (("path",), ["a", "b"], None),
        (("path?",), [], ()),
        (("path?",), ["a", "b"], None),
        (("path+",), [], None),
        (("path+",), ["a", "b"], ("path", "path")),
        (("path*", "name"), ["a/b", "c/d", "e"], ("path", "path", "name")),
        (("path*", "name"), ["a", "b/c"], None),
        (("path?", "path"), ["a"], ("path",)),
        (("number?", "path*"), ["a"], ("path",)),
        (("number?", "path*"), ["1", "2"], ("number", "path")),
        (("text", "path*"), ["/a/", "/etc"], None),
        (("text", "path*"), ["/a/", "etc"], ("text", "path")),
        (("sed_lines", "file+"), ["1,5p", "a", "b"], ("sed_lines", "file", "file")),
        (("sed_lines", "file+"), ["1,5w x", "a"], None),
    ],
)
def test_operands_stand_in_their_order_and_as_often_as_they_may(
    operands: tuple[str, ...], words: list[str], read: tuple[str, ...] | None
) -> None:
    expected = None if read is None else tuple(zip(read, words, strict=True))

    assert Command("x", operands=operands).read(*words) == expected


@pytest.mark.timeout(20)
def test_a_long_line_is_read_in_time_that_grows_with_it() -> None:
    words = ["a"] * 50_000
    rule = Command("x", operands=("path*", "path*", "path*", "number"))

    assert rule.read(*words) is None
    assert Command("x", operands=("path*",)).read(*words) == (("path", "a"),) * 50_000


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["-a", "-b", "--", "-", "-ab", "--long", "--long=v", "-v", "x", "", "-ax", "-vx"]
            ),
            st.text("-av=x/.", max_size=6),
        ),
        max_size=6,
    )
)
def test_nothing_is_read_but_flags_that_are_listed_their_values_and_operands(
    words: list[str],
) -> None:
    rule = Command(
        "x",
        flags=("-a", "-b", "-v:name", "--long", "--long=name"),
        operands=("file*",),
        getopt=True,
    )
    read = rule.read(*words)

    if read is not None:
        before, after = words, list[str]()
        if "--" in words:
            before, after = words[: words.index("--")], words[words.index("--") + 1 :]
        flags = [one for one in before if one.startswith("-") and one != "-"]
        assert all(
            one == "--long"
            or one.startswith("--long=")
            or (one[1] != "-" and one.lstrip("-ab")[:1] in ("", "v"))
            for one in flags
        )
        assert all(takes(kind, text) for kind, text in read)
        assert set(after) <= {text for _, text in read}


# ---------------------------------------------------------------- how deep it reads


@pytest.mark.parametrize(
    ("recursive", "words", "expected"),
    [
        ((), ["-r", "x"], False),
        (("*",), [], True),
        (("-r", "--recursive"), ["x", "."], False),
        (("-r", "--recursive"), ["-r", "x"], True),
        (("-r", "--recursive"), ["-inr", "x"], True),
        (("-r", "--recursive"), ["--recursive", "x"], True),
        (("-r", "--recursive"), ["--regexp", "x"], False),
        (("-r", "--recursive"), ["r"], False),
        (("-rec",), ["-rec"], True),
        (("-rec",), ["-r"], False),
    ],
)
def test_some_flags_make_a_command_read_all_below(
    recursive: tuple[str, ...],
    words: list[str],
    expected: bool,  # noqa: FBT001
) -> None:
    assert Command("grep", recursive=recursive).named.is_recursive(["grep", *words]) is expected


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_one_that_flags_and_operands_may_have(kind: str) -> None:
    named = Command("x", flags=[f"-x:{kind}"], operands=[kind]).named

    assert (named.flags, named.operands) == ((("-x", ":", kind),), ((kind, 1, 1),))
