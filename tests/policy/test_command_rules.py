"""Commands as rules name them: what is not listed is not meant, however it is spelled."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.policy import Unusable
from handrail.policy._command import KINDS, Command, Flag, Operand, Word, flag, operand

INF = float("inf")


def command(
    *words: str, flags: tuple[str, ...] | None = (), operands: tuple[str, ...] | None = ()
) -> Command:
    return Command(
        words,
        None if flags is None else tuple(map(flag, flags)),
        None if operands is None else tuple(map(operand, operands)),
    )


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["", "a b", "-x", "/etc/passwd", "../x", "$(x)\n"]),
        ("path", ["a", "a/b.py", "./a", "a/..b", "...", "", "-", "/dev/null", "a b"]),
        ("file", ["a", "a/b.py", "./-x", "..a"]),
        ("place", ["./a", "./a/b-c.py", "./..a", "./", "a/", "tests/a.py", "a-b/c"]),
        ("here", ["./a", "./a/b-c.py", "./"]),
        ("number", ["0", "12", "-1", "+3"]),
        ("name", ["a", "a.b", "@x", "a-b", "a:b", "+x", "1", ".a", "a..b", "..."]),
        ("setting", ["A=1", "a=", "_x=a=b", "a=/etc\n"]),
        ("lines", ["1p", "1,20p", "$p", "2,$p", "5,+3p"]),
    ],
)
def test_a_kind_takes_what_it_says(kind: str, values: list[str]) -> None:
    assert {one: KINDS[kind](one) for one in values} == dict.fromkeys(values, True)


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
            ],
        ),
        ("file", ["", "-", "-x", "/dev/null", "/a", "../a", "~", "git://x"]),
        (
            "place",
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
        ("here", ["", "a", "a/b", ".", "..", "./../a", "/a", "./a b", "./a:b", "-./a"]),
        ("number", ["", "-", "+", "--1", "++1", "1.5", "1e3", "0x1", "1 ", " 1", "a", "²", "+-5"]),
        ("name", ["", "a/b", "-a", "a b", "a\n", "a=b", "~", "ä", "*"]),
        ("name", ["..", "."]),
        ("setting", ["A", "=1", "1A=1", "-A=1", "a b=c"]),
        (
            "lines",
            ["", "p", "1", "1,p", "1,2d", "1p;w x", "1,2p\n", "/a/p", "1,2 p", "w x", "1e ls"],
        ),
    ],
)
def test_a_kind_refuses_what_it_does_not_say(kind: str, values: list[str]) -> None:
    assert {one: KINDS[kind](one) for one in values} == dict.fromkeys(values, False)


# ---------------------------------------------------------------- as they are written


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("-l", Flag("-l", "", "text")),
        ("-#", Flag("-#", "", "text")),
        ("-n:number", Flag("-n", ":", "number")),
        ("--format=text", Flag("--format", "=", "text")),
        ("--format=", Flag("--format", "=", "text")),
        ("--cov:", Flag("--cov", ":", "text")),
        ("--no-pager", Flag("--no-pager", "", "text")),
        ("-name:text", Flag("-name", ":", "text")),
        ("--a.b_c-d:file", Flag("--a.b_c-d", ":", "file")),
    ],
)
def test_a_flag_is_read_as_it_is_written(text: str, made: Flag) -> None:
    assert flag(text) == made


@pytest.mark.parametrize(
    "text",
    ["", "-", "--", "l", "---x", "-l ", "-l:path?", "--a b", "-é", "-x::", "-n:Number", "-a\n"],
)
def test_what_is_no_flag_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(Unusable) as caught:
        flag(text)

    assert str(caught.value) == (f"{text!r} is no flag: write '-l', '-n:number' or '--format=text'")


def test_a_flag_of_no_known_kind_is_refused_with_all_that_there_are() -> None:
    with pytest.raises(Unusable) as caught:
        flag("-n:int")

    assert str(caught.value) == (
        "'-n:int': there are the kinds text, path, file, place, here, number, name, setting, lines"
    )


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("path", Operand("path", 1, 1)),
        ("path?", Operand("path", 0, 1)),
        ("path*", Operand("path", 0, INF)),
        ("path+", Operand("path", 1, INF)),
    ],
)
def test_an_operand_is_read_as_it_is_written(text: str, made: Operand) -> None:
    assert operand(text) == made


@pytest.mark.parametrize("text", ["", "*", "paths", "path**", "path?*", "path *", "*path", "Path"])
def test_what_is_no_operand_is_refused_with_all_that_there_are(text: str) -> None:
    with pytest.raises(Unusable) as caught:
        operand(text)

    assert str(caught.value) == (
        f"{text!r} is no operand: there are text, path, file, place, here, number, name, "
        "setting, lines, each with ?, * or +"
    )


# ---------------------------------------------------------------- words


def test_a_command_without_flags_and_operands_means_its_words_alone() -> None:
    rule = command("npm", "test")

    assert rule.reading(["npm", "test"]) == ()
    assert [
        rule.reading(argv)
        for argv in (
            ["npm"], ["npm", "tests"], ["npm", "test", "x"], ["npm", "test", "-x"], ["npm", "-x", "test"],
            ["npm", "test", "--"], ["npm", "test", "-"], ["npm", "test", ""], ["/bin/npm", "test"], [],
        )
    ] == [None] * 10  # fmt: skip


def test_a_command_with_any_flags_and_operands_names_every_value_that_may_be_a_path() -> None:
    rule = command("grep", flags=None, operands=None)

    assert rule.reading(["grep", "-r", "--file=.env", "x", "a/b", "--", "-c"]) == (
        Word("path", ""),
        Word("path", ".env"),
        Word("path", "x"),
        Word("path", "a/b"),
        Word("path", "-c"),
    )


def test_with_any_flags_a_value_that_is_glued_to_one_is_named_too() -> None:
    rule = command("grep", flags=None, operands=None)

    assert Word("path", ".env") in (rule.reading(["grep", "-f.env", "x"]) or ())


def test_with_any_flags_a_value_that_is_glued_to_several_is_named_too() -> None:
    rule = command("grep", flags=None, operands=None)

    assert Word("path", ".env") in (rule.reading(["grep", "-if.env", "x"]) or ())


# ---------------------------------------------------------------- flags

GIT_LOG = command(
    "git", "log",
    flags=("-p", "-q", "-n:number", "-#", "-S:text", "--oneline", "--stat", "--stat=text", "--format=text", "--since:text", "-O:file"),
    operands=("path*",),
)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "read"),
    [
        (["-p"], ()),
        (["-pq"], ()),
        (["-qpn5"], (Word("number", "5"),)),
        (["-qpn", "5"], (Word("number", "5"),)),
        (["-n", "5"], (Word("number", "5"),)),
        (["-n5", "a"], (Word("number", "5"), Word("path", "a"))),
        (["-n", "-5"], (Word("number", "-5"),)),
        (["-20"], ()),
        (["-Sabc"], (Word("text", "abc"),)),
        (["-Sa=b"], (Word("text", "a=b"),)),
        (["-S", ""], (Word("text", ""),)),
        (["--stat"], ()),
        (["--stat=80"], (Word("text", "80"),)),
        (["--format=%H"], (Word("text", "%H"),)),
        (["--format="], (Word("text", ""),)),
        (["--since", "a week"], (Word("text", "a week"),)),
        (["--since=a week"], (Word("text", "a week"),)),
        (["a", "-p", "b"], (Word("path", "a"), Word("path", "b"))),
        (["--", "-p", "--output=x"], (Word("path", "-p"), Word("path", "--output=x"))),
        (["-"], (Word("path", "-"),)),
        (["-O", "orders"], (Word("file", "orders"),)),
        (["--", "--"], (Word("path", "--"),)),
    ],
)
def test_listed_flags_and_their_values_are_read(words: list[str], read: tuple[Word, ...]) -> None:
    assert GIT_LOG.reading(["git", "log", *words]) == read


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
    assert GIT_LOG.reading(["git", "log", *words]) is None


@pytest.mark.parametrize("words", [["-S", "-p"], ["--since", "--output=x"], ["-pS", "--output=x"]])
def test_a_value_of_its_own_never_begins_with_a_dash(words: list[str]) -> None:
    # Some parsers would take it for the next flag, and it would have passed unseen.
    assert GIT_LOG.reading(["git", "log", *words]) is None


def test_a_flag_with_one_dash_and_several_letters_may_take_a_value_either_way() -> None:
    rule = command("go", "test", flags=("-run:text", "-count=number", "-v"))

    assert [
        rule.reading(["go", "test", *words])
        for words in (["-run", "X"], ["-run=X"], ["-count=1"], ["-count", "1"], ["-v=1"], ["-runX"])
    ] == [(Word("text", "X"),), (Word("text", "X"),), (Word("number", "1"),), None, None, None]


def test_a_flag_that_may_stand_with_and_without_a_value_takes_none_from_the_next_word() -> None:
    rule = command("x", flags=("-c", "-c:text", "--color", "--color=name"))

    assert [
        rule.reading(["x", *words])
        for words in (["-c"], ["-cc"], ["-c", "a"], ["--color=a"], ["--color", "a"], ["-ca"])
    ] == [(), (), None, (Word("name", "a"),), None, None]


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
        (("lines", "file+"), ["1,5p", "a", "b"], ("lines", "file", "file")),
        (("lines", "file+"), ["1,5w x", "a"], None),
    ],
)
def test_operands_stand_in_their_order_and_as_often_as_they_may(
    operands: tuple[str, ...], words: list[str], read: tuple[str, ...] | None
) -> None:
    expected = None if read is None else tuple(map(Word, read, words))

    assert command("x", operands=operands).reading(["x", *words]) == expected


@pytest.mark.timeout(20)
def test_a_long_line_is_read_in_time_that_grows_with_it() -> None:
    words = ["a"] * 50_000
    rule = command("x", operands=("path*", "path*", "path*", "number"))

    assert rule.reading(["x", *words]) is None
    assert command("x", operands=("path*",)).reading(["x", *words]) == (Word("path", "a"),) * 50_000


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
    rule = command("x", flags=("-a", "-b", "-v:name", "--long", "--long=name"), operands=("file*",))
    read = rule.reading(["x", *words])

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
        assert all(KINDS[one.kind](one.text) for one in read)
        assert set(after) <= {one.text for one in read}


# ---------------------------------------------------------------- how deep it reads


@pytest.mark.parametrize(
    ("deep", "words", "expected"),
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
    deep: tuple[str, ...],
    words: list[str],
    expected: bool,  # noqa: FBT001
) -> None:
    assert Command(("grep",), deep=deep).goes_deep(["grep", *words]) is expected


def test_every_kind_is_one_that_flags_and_operands_may_have() -> None:
    assert list(
        chain.from_iterable((flag(f"-x:{kind}").kind, operand(kind).kind) for kind in KINDS)
    ) == [one for kind in KINDS for one in (kind, kind)]
