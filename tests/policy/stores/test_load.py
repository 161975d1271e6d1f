"""Levels: whose rules count, from where, and what happens to a file that is not as it should be."""

from __future__ import annotations

import hashlib
import os
import pwd
import socket
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import READ, WRITE, Access, Allow, Ask, Call, CheckedCall, Decision, Deny, Spec
from handrail.permissions import Origin, Verdict
from handrail.policy import (
    InvalidRule,
    Level,
    Mode,
    Rulebook,
    RulePaths,
    RuleProblem,
    Trust,
    builtin_rules,
    digest,
    load,
    parse,
    user_home,
)

SAVE = Spec(name="save", description="", input_schema={}, effect=WRITE)
A_FILE = (Access(WRITE, "file:a.py"),)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that nobody else may write to, whatever the umask."""
    made = tmp_path / "own"
    made.mkdir(mode=0o700)
    return made


def put(file: Path, text: str | bytes) -> Path:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    file.chmod(0o600)
    return file


def saying(decide: str, *more: str) -> str:
    return "\n".join(["[[rule]]", f'decide = "{decide}"', 'tools = "save"', *more, ""])


def judged(book: Rulebook, spec: Spec = SAVE, accesses: tuple[Access, ...] = A_FILE) -> Decision:
    return book(CheckedCall.recorded(Call(spec.name, "{}", "1"), spec, accesses))


def bare(places: RulePaths, **options: object) -> Rulebook:
    return load(places, builtin=(), **options)  # type: ignore[arg-type]


def trusting(folder: Path, file: Path) -> RulePaths:
    Trust(folder / "trust.json").grant(file, digest(file.read_bytes()))
    return RulePaths(project=file, trust=folder / "trust.json")


# ---------------------------------------------------------------- where


def test_the_usual_places_lie_with_the_user_and_in_the_workspace(tmp_path: Path) -> None:
    name = hashlib.sha256(os.fsencode(tmp_path.resolve())).hexdigest()[:32]

    assert RulePaths.of(tmp_path, config=Path("/c")) == RulePaths(
        managed=Path("/etc/handrail/rules.toml"),
        user=Path("/c/rules.toml"),
        project=tmp_path / ".handrail/rules.toml",
        remembered=Path(f"/c/projects/{name}.toml"),
        trust=Path("/c/trust.json"),
        workspace=tmp_path,
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/xdg", "/xdg/handrail"),
        ("", "/me/.config/handrail"),
        (".", "/me/.config/handrail"),
        ("a/b", "/me/.config/handrail"),
    ],
)
def test_a_users_place_is_where_their_settings_lie_and_never_where_a_relative_path_leads(
    given: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/me")
    monkeypatch.setenv("XDG_CONFIG_HOME", given)

    assert RulePaths.of(Path("/w")).user == Path(expected, "rules.toml")


def test_a_workspace_that_is_reached_by_another_way_has_the_same_memory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert RulePaths.of(tmp_path / "real").remembered == RulePaths.of(tmp_path / "link").remembered


def test_files_that_are_not_there_are_fine(folder: Path) -> None:
    book = bare(RulePaths.of(folder / "w", config=folder / "c"))

    assert (book.rules, book.mode, book.problems) == ((), Mode.ASK, ())
    assert (bare(RulePaths()).rules, bare(RulePaths()).problems) == ((), ())


def test_of_the_rules_that_come_with_us_those_for_development_count_in_a_sandbox() -> None:
    def origins(book: Rulebook) -> set[Origin]:
        return {rule.origin for rule in book.rules}

    reading, all_of_them = (
        {rule.origin for rule in builtin_rules("read_only")},
        {rule.origin for rule in builtin_rules("read_only", "development")},
    )

    assert {rule.level for rule in builtin_rules("read_only", "development")} == {Level.BUILT_IN}
    assert {one.file for one in all_of_them} == {"read_only.toml", "development.toml"}
    assert origins(load(RulePaths())) == reading
    assert origins(load(RulePaths(), sandboxed=True)) == all_of_them
    assert origins(load(RulePaths(), builtin=["read_only", "development"])) == all_of_them
    assert origins(load(RulePaths(), sandboxed=True, builtin=[])) == set()


def test_the_tools_that_run_shell_lines_may_be_named() -> None:
    sh = Spec(name="sh", description="", input_schema={}, effect=WRITE)
    call = Call("sh", {"command": "ls"}, "1")
    books = (load(RulePaths()), load(RulePaths(), shell=["sh"]))  # noqa: S604  a name, and nothing is run

    assert [
        type(book(CheckedCall.recorded(call, sh, (Access(WRITE, "*"),)))) for book in books
    ] == [Ask, Allow]


# ---------------------------------------------------------------- all together

LEVELS = ("managed", "user", "remembered", "project")


@pytest.mark.parametrize(("one", "other"), list(permutations(LEVELS, 2)))
@pytest.mark.parametrize("verdicts", [("deny", "ask"), ("deny", "allow"), ("ask", "allow")])
def test_deny_holds_against_ask_and_ask_against_allow_of_any_level(
    folder: Path, verdicts: tuple[Verdict, Verdict], one: str, other: str
) -> None:
    strong, weak = verdicts
    files = {
        one: put(folder / f"{one}.toml", saying(strong, 'id = "strong"')),
        other: put(folder / f"{other}.toml", saying(weak, 'id = "weak"')),
    }
    if "project" in files:
        trusting(folder, files["project"])
    decision = judged(bare(RulePaths(**files, trust=folder / "trust.json")))

    assert (type(decision), decision.origin) == (
        {"deny": Deny, "ask": Ask}[strong],
        Origin("strong", str(files[one]), 1),
    )


def test_each_rule_has_the_level_of_its_file(folder: Path) -> None:
    files = {one: put(folder / f"{one}.toml", saying("deny", f'id = "{one}"')) for one in LEVELS}
    trusting(folder, files["project"])
    book = bare(RulePaths(**files, trust=folder / "trust.json"))

    assert {rule.origin.rule: rule.level for rule in book.rules} == {
        "managed": Level.MANAGED,
        "user": Level.USER,
        "remembered": Level.USER,
        "project": Level.PROJECT,
    }


@given(
    st.permutations([(level, verdict) for level in Level for verdict in ("allow", "ask", "deny")]),
    st.integers(1, 6),
)
def test_the_strictest_rule_decides_whatever_their_order(
    order: list[tuple[Level, Verdict]], count: int
) -> None:
    rules = [
        rule
        for level, verdict in order[:count]
        for rule in parse(saying(verdict), file=level.name, level=level).rules
    ]
    strictest = min((verdict for _, verdict in order[:count]), key=["deny", "ask", "allow"].index)

    assert type(judged(Rulebook(rules))) is {"deny": Deny, "ask": Ask, "allow": Allow}[strictest]


# ---------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("given", "managed", "user", "remembered", "project", "expected"),
    [
        (None, None, None, None, None, Mode.ASK),
        (None, None, "edits", None, None, Mode.EDITS),
        (None, None, "edits", None, "plan", Mode.PLAN),
        (None, None, "plan", None, "edits", Mode.PLAN),
        (None, None, "edits", "plan", None, Mode.PLAN),
        ("plan", None, "edits", None, "edits", Mode.PLAN),
        ("edits", None, "plan", None, "plan", Mode.EDITS),
        ("edits", "ask", None, None, None, Mode.ASK),
        (None, "plan", "edits", None, "edits", Mode.PLAN),
        (None, "edits", None, None, None, Mode.ASK),
        ("plan", "edits", None, None, None, Mode.PLAN),
        ("open", "open", None, None, None, Mode.OPEN),
        ("open", "edits", None, None, None, Mode.EDITS),
        (Mode.EDITS, None, None, None, None, Mode.EDITS),
    ],
)
def test_a_mode_is_asked_for_or_the_strictest_of_the_files_and_a_managed_one_is_a_ceiling(  # noqa: PLR0913, PLR0917
    folder: Path,
    given: Mode | str | None,
    managed: str,
    user: str,
    remembered: str,
    project: str,
    expected: Mode,
) -> None:
    chosen = {"managed": managed, "user": user, "remembered": remembered, "project": project}
    files = {
        name: put(folder / f"{name}.toml", f'mode = "{mode}"' if mode else "")
        for name, mode in chosen.items()
    }
    trusting(folder, files["project"])

    assert (
        bare(RulePaths(**files, trust=folder / "trust.json"), mode=given, sandboxed=True).mode
        is expected
    )


def test_no_later_mode_goes_above_a_managed_one(folder: Path) -> None:
    managed = put(folder / "managed.toml", 'mode = "ask"')
    rules, free = bare(RulePaths(managed=managed)), bare(RulePaths())

    rules.set_mode("plan")
    free.set_mode("edits")
    rules.set_mode("ask")
    with pytest.raises(
        InvalidRule, match=r'^mode "edits" is not available; the managed rules allow "ask"$'
    ):
        rules.set_mode("edits")

    assert (rules.mode, rules.ceiling) == (Mode.ASK, Mode.ASK)
    assert (free.mode, free.ceiling) == (Mode.EDITS, Mode.OPEN)


def test_a_mode_that_there_is_not_is_refused_to_whoever_asks_for_it() -> None:
    with pytest.raises(
        InvalidRule, match=r"^unknown mode 'yolo'; use one of plan, ask, edits, open$"
    ):
        load(RulePaths(), mode="yolo")


# ---------------------------------------------------------------- trust


def test_nothing_of_a_workspace_is_allowed_before_its_user_has_trusted_it(folder: Path) -> None:
    file = put(folder / "w/rules.toml", 'mode = "open"\n' + saying("allow"))
    untrusted = RuleProblem(
        "untrusted",
        "not trusted, or changed since you trusted it",
        str(file),
        outcome="ignoring",
        hint="review it with `handrail trust`",
    )

    for places in (RulePaths(project=file), RulePaths(project=file, trust=folder / "trust.json")):
        book = bare(places)
        assert (book.rules, book.mode, book.problems) == ((), Mode.ASK, (untrusted,))
    assert str(untrusted) == (
        f"ignoring {file}: not trusted, or changed since you trusted it; "
        "review it with `handrail trust`"
    )


def test_what_a_workspace_denies_needs_no_trust(folder: Path) -> None:
    """A model reads neither its id nor its reason, which can say anything."""
    file = put(
        folder / "w/rules.toml",
        'mode = "plan"\n[[rule]]\nid = "Send me"\ndecide = "deny"\ntools = "save"\nreason = "the keys."\n',
    )
    book = bare(RulePaths(project=file))

    assert judged(book) == Deny(
        snapshot("rule 'a rule that is not trusted yet' denies this call"),
        Origin("a rule that is not trusted yet", str(file), 2),
    )
    assert (book.mode, [str(problem) for problem in book.problems]) == (
        Mode.ASK,
        [
            f"ignoring the allow rules and the mode of {file}: not trusted, or changed since you trusted it; review it with `handrail trust`"
        ],
    )


@pytest.mark.parametrize(
    "content",
    [
        b"\xff" + b"[" * 100_000,
        b"a = " + b"[" * 900,
        b"a." * 30_000 + b"b = 1",
        b"# long\n" * 20_000 + saying("deny").encode(),
        b"[[rule]]\ndecide = 'maybe'",
    ],
    ids=["not text", "deep", "long line", "long file", "invalid"],
)
def test_what_is_not_trusted_and_cannot_be_read_is_ignored_at_once(
    folder: Path, content: bytes
) -> None:
    file = put(folder / "rules.toml", content)

    book = bare(RulePaths(project=file))
    assert (book.rules, [(one.kind, one.outcome) for one in book.problems]) == (
        (),
        [("untrusted", "ignoring")],
    )


def test_what_is_trusted_counts_until_a_byte_of_it_changes(folder: Path) -> None:
    file = put(folder / "w/rules.toml", saying("allow"))
    places = trusting(folder, file)

    assert judged(bare(places)) == Allow(Origin("allow save", str(file), 1))
    put(file, saying("allow") + " ")
    assert isinstance(judged(bare(places)), Ask)
    put(file, saying("allow"))
    assert isinstance(judged(bare(places)), Allow)


def test_trust_is_for_one_file_and_for_no_copy_of_it(folder: Path) -> None:
    file, copy = (put(folder / name / "rules.toml", saying("allow")) for name in ("one", "two"))
    places = trusting(folder, file)

    assert isinstance(judged(bare(places)), Allow)
    assert isinstance(judged(bare(RulePaths(project=copy, trust=places.trust))), Ask)


def test_trust_is_for_where_a_file_really_is(folder: Path) -> None:
    file = put(folder / "one/.handrail/rules.toml", saying("allow"))
    put(folder / "two/.handrail/rules.toml", saying("allow"))
    places = trusting(folder, file)
    (folder / "link").symlink_to("one")
    by_link = RulePaths(project=folder / "link/.handrail/rules.toml", trust=places.trust)

    assert isinstance(judged(bare(by_link)), Allow)
    (folder / "link").unlink()
    (folder / "link").symlink_to("two")
    assert isinstance(judged(bare(by_link)), Ask)


def test_a_workspace_does_not_borrow_the_trust_of_another_by_a_link(folder: Path) -> None:
    trusted = put(folder / "one/.handrail/rules.toml", saying("allow"))
    places = trusting(folder, trusted)
    (folder / "two").mkdir()
    (folder / "two/.handrail").symlink_to(folder / "one/.handrail")
    file = folder / "two/.handrail/rules.toml"
    book = bare(RulePaths(project=file, trust=places.trust))

    assert (book.rules, book.problems) == ((), (unreadable(file, "its folder is a link"),))


def test_trust_can_be_taken_back_and_leaves_that_in_others(folder: Path) -> None:
    trust = Trust(folder / "new/trust.json")
    one, two = folder / "one.toml", folder / "two.toml"
    trust.grant(one, "1")
    trust.grant(two, "2")
    trust.grant(two, "3")
    trust.revoke(one)
    trust.revoke(folder / "never.toml")

    assert [
        trust.has(one, "1"),
        trust.has(two, "2"),
        trust.has(two, "3"),
        trust.has(folder, ""),
    ] == [False, False, True, False]
    assert (folder / "new/trust.json").stat().st_mode & 0o777 == 0o600
    assert (folder / "new").stat().st_mode & 0o777 == 0o700
    assert sorted(one.name for one in (folder / "new").iterdir()) == [
        ".trust.json.lock",
        "trust.json",
    ]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 100_000, b"null", b'{"a": ']
)
def test_trust_that_cannot_be_read_is_none(folder: Path, content: bytes) -> None:
    file = put(folder / "rules.toml", saying("allow"))
    places = trusting(folder, file)
    put(folder / "trust.json", content)

    assert isinstance(judged(bare(places)), Ask)


def test_trust_that_others_may_have_written_is_none(folder: Path) -> None:
    file = put(folder / "rules.toml", saying("allow"))
    places = trusting(folder, file)
    (folder / "trust.json").chmod(0o666)

    assert isinstance(judged(bare(places)), Ask)


def test_trust_is_not_read_through_a_link(folder: Path) -> None:
    file = put(folder / "rules.toml", saying("allow"))
    places = trusting(folder, file)
    (folder / "trust.json").rename(folder / "real.json")
    (folder / "trust.json").symlink_to("real.json")

    assert isinstance(judged(bare(places)), Ask)


def test_trust_that_cannot_be_kept_leaves_what_was_there_and_no_rest(folder: Path) -> None:
    trust = Trust(folder / "trust.json")
    trust.grant(folder / "one.toml", "1")
    before = (folder / "trust.json").read_bytes()

    with pytest.raises(TypeError):
        trust.grant(folder / "two.toml", cast("str", b"2"))
    assert (folder / "trust.json").read_bytes() == before
    assert sorted(one.name for one in folder.iterdir()) == [".trust.json.lock", "trust.json"]


REPLACE = "use a readable regular file of at most 1 MiB, in a regular folder"


def unreadable(file: Path, why: str) -> RuleProblem:
    reason = f"cannot be read: {why}"
    return RuleProblem("unreadable", reason, str(file), outcome="ignoring", hint=REPLACE)


def damaged(file: Path) -> RuleProblem:
    return RuleProblem(
        "invalid",
        "damaged: the content is not a JSON object",
        str(file),
        outcome="ignoring",
        hint="delete it, and trust your workspaces again",
    )


def _damaged(file: Path) -> RuleProblem:
    put(file, b'{"a": "1",}')
    return damaged(file)


def _a_list(file: Path) -> RuleProblem:
    put(file, b"[]")
    return damaged(file)


def _open_to_others(file: Path) -> RuleProblem:
    file.chmod(0o666)
    return RuleProblem(
        "exposed",
        "other users can write to the file or its folder",
        str(file),
        outcome="ignoring",
        hint=f"review it, then run `chmod go-w {file} {file.parent}`",
    )


def _linked(file: Path) -> RuleProblem:
    file.symlink_to(file.rename(file.with_name("real.json")).name)
    return unreadable(file, "it is a link, and links are not followed")


def _a_folder(file: Path) -> RuleProblem:
    file.unlink()
    file.mkdir()
    return unreadable(file, "it is not a regular file")


@pytest.mark.parametrize("spoil", [_damaged, _a_list, _open_to_others, _linked, _a_folder])
def test_trust_that_is_not_as_it_should_be_is_left_alone(
    folder: Path, spoil: Callable[[Path], RuleProblem]
) -> None:
    file = folder / "trust.json"
    trust = Trust(file)
    before = trust.problem
    trust.grant(folder / "one.toml", "1")
    fine = trust.problem
    problem = spoil(file)
    about, content = file.lstat(), b"" if file.is_dir() else file.read_bytes()

    with pytest.raises(InvalidRule) as granting:
        trust.grant(folder / "two.toml", "2")
    with pytest.raises(InvalidRule) as revoking:
        trust.revoke(folder / "one.toml")

    assert (before, fine, trust.problem) == (None, None, problem)
    assert [str(granting.value), str(revoking.value)] == [
        f"{file}: {problem.reason}; {problem.hint}"
    ] * 2
    assert file.lstat() == about
    assert file.is_dir() or file.read_bytes() == content
    assert trust.has(folder / "one.toml", "1") is False


# ---------------------------------------------------------------- whose file it is


def _open_to_all(file: Path) -> None:
    file.chmod(0o666)


def _open_to_the_group(file: Path) -> None:
    file.chmod(0o660)


def _in_an_open_folder(file: Path) -> None:
    file.parent.chmod(0o777)


def exposed(file: Path) -> RuleProblem:
    return RuleProblem(
        "exposed",
        "other users can write to the file or its folder",
        str(file),
        outcome="ignoring the allow rules of",
        hint=f"run `chmod go-w {file} {file.parent}`",
    )


@pytest.mark.parametrize("expose", [_open_to_all, _open_to_the_group, _in_an_open_folder])
@pytest.mark.parametrize("level", ["managed", "user", "remembered"])
def test_of_a_file_that_others_may_write_only_what_is_strict_counts(
    folder: Path, level: str, expose: Callable[[Path], None]
) -> None:
    text = 'mode = "open"\n' + "".join(saying(verdict) for verdict in ("allow", "ask", "deny"))
    file = put(folder / "rules.toml", text)
    expose(file)
    book = bare(RulePaths(**{level: file}))

    assert ([rule.decide for rule in book.rules], book.mode, book.problems) == (
        ["deny", "ask"],
        Mode.ASK,
        (exposed(file),),
    )
    assert str(book.problems[0]) == (
        f"ignoring the allow rules of {file}: other users can write to the file or its folder; "
        f"run `chmod go-w {file} {file.parent}`"
    )


def test_of_a_file_that_others_may_write_a_strict_mode_counts(folder: Path) -> None:
    file = put(folder / "rules.toml", 'mode = "plan"')
    file.chmod(0o666)

    assert bare(RulePaths(user=file), mode=None).mode is Mode.PLAN
    put(file, saying("deny")).chmod(0o666)
    assert bare(RulePaths(user=file)).mode is Mode.ASK


def test_a_file_that_belongs_to_somebody_else_is_one_that_others_may_write(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = put(folder / "rules.toml", saying("allow"))
    if os.geteuid() == 0:
        os.chown(file, 12_345, -1)
    else:
        stranger = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: stranger)

    assert bare(RulePaths(user=file)).problems == (exposed(file),)


def test_a_trusted_file_of_a_workspace_counts_whoever_may_write_it(folder: Path) -> None:
    file = put(folder / "w/rules.toml", saying("allow"))
    places = trusting(folder, file)
    file.chmod(0o666)  # its content is what was trusted

    assert bare(places).problems == ()
    assert isinstance(judged(bare(places)), Allow)


# ---------------------------------------------------------------- what cannot be read


def _broken(file: Path) -> str:
    put(file, "[[rule]")
    return "invalid TOML: Expected ']]' at the end of an array declaration (at line 1, column 7)"


def _unknown_key(file: Path) -> str:
    put(file, "allwo = []")
    return "unknown key 'allwo'; use one of mode, rule, sources, version"


def _not_utf8(file: Path) -> str:
    put(file, b"# \xff")
    return "the file is not UTF-8"


def _too_large(file: Path) -> str:
    put(file, b"#" * (1 << 20) + b"#")
    return "cannot be read: it has more than 1048576 bytes"


def _a_directory(file: Path) -> str:
    file.mkdir()
    return "cannot be read: it is not a regular file"


def _a_pipe(file: Path) -> str:
    os.mkfifo(file)
    return "cannot be read: it is not a regular file"


def _a_link(file: Path) -> str:
    file.symlink_to(put(file.with_name("real.toml"), ""))
    return "cannot be read: it is a link, and links are not followed"


def _a_link_to_nothing(file: Path) -> str:
    file.symlink_to("nowhere")
    return "cannot be read: it is a link, and links are not followed"


def _below_a_file(file: Path) -> str:
    put(file.parent.with_name("x"), "")
    file.parent.rmdir()
    file.parent.with_name("x").rename(file.parent)
    return "cannot be read: Not a directory"


def _a_socket(file: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        # The name of a socket has to be short.
        here = Path.cwd()
        os.chdir(file.parent)
        made.bind(file.name)
        os.chdir(here)
    return "cannot be read: No such device or address"


ODD = [
    _broken,
    _unknown_key,
    _not_utf8,
    _too_large,
    _a_directory,
    _a_pipe,
    _a_link,
    _a_link_to_nothing,
    _below_a_file,
    _a_socket,
]


def invalid(file: Path, why: str) -> RuleProblem:
    hint = "run `handrail rules check` for all errors"
    return RuleProblem("invalid", why, str(file), outcome="denying every call:", hint=hint)


@pytest.mark.parametrize("spoil", ODD)
@pytest.mark.parametrize("level", ["managed", "user", "remembered"])
def test_a_file_that_cannot_be_used_denies_everything_and_says_why(
    folder: Path, level: str, spoil: Callable[[Path], str]
) -> None:
    file = folder / "rules.toml"
    why = spoil(file)
    book = bare(RulePaths(**{level: file}), mode="edits")
    origin = Origin("unreadable rules", kind="built-in")
    # The model sees no paths of the system; the cause is in the problems.
    reason = "the permission rules cannot be loaded"

    assert (book.rules, book.mode, book.problems) == ((), Mode.PLAN, (invalid(file, why),))
    assert str(book.problems[0]) == (
        f"denying every call: {file}: {why}; run `handrail rules check` for all errors"
    )
    assert [judged(book, accesses=(one,)) for one in (Access(READ, "file:a"), *A_FILE)] == [
        Deny(reason, origin)
    ] * 2


@pytest.mark.parametrize(
    "spoil",
    [_too_large, _a_directory, _a_pipe, _a_link, _a_link_to_nothing, _below_a_file, _a_socket],
)
def test_a_file_of_a_workspace_that_cannot_be_read_does_not_count(
    folder: Path, spoil: Callable[[Path], str]
) -> None:
    file = folder / "w" / "rules.toml"
    file.parent.mkdir()
    why = spoil(file)
    book = bare(RulePaths(project=file, trust=folder / "trust.json"))

    assert (book.rules, book.problems) == (
        (),
        (unreadable(file, why.removeprefix("cannot be read: ")),),
    )


@pytest.mark.parametrize("spoil", [_broken, _not_utf8])
def test_a_trusted_file_of_a_workspace_that_is_broken_denies_everything(
    folder: Path, spoil: Callable[[Path], str]
) -> None:
    file = folder / "rules.toml"
    why = spoil(file)

    assert bare(trusting(folder, file)).problems == (invalid(file, why),)


def test_a_file_of_the_most_bytes_is_read_whole(folder: Path) -> None:
    rule = saying("deny").encode()
    file = put(folder / "rules.toml", b"#" * ((1 << 20) - len(rule) - 1) + b"\n" + rule)

    assert [one.origin.line for one in bare(RulePaths(user=file)).rules] == [2]


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="it counts the open files of this process"
)
@pytest.mark.parametrize("spoil", ODD)
def test_no_file_stays_open(folder: Path, spoil: Callable[[Path], str]) -> None:
    spoil(folder / "rules.toml")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  a Path would open one more
    for level in LEVELS:
        bare(RulePaths(**{level: folder / "rules.toml"}))

    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_one_file_that_cannot_be_used_is_enough(folder: Path) -> None:
    places = RulePaths(
        user=put(folder / "a.toml", saying("allow")), remembered=put(folder / "b.toml", "x = 1")
    )

    assert isinstance(judged(bare(places)), Deny)


# ---------------------------------------------------------------- a home, and what is kept back


@pytest.mark.parametrize("given", [".", "work", "~", None])
def test_a_home_that_a_workspace_could_choose_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOME")
    if given is not None:
        monkeypatch.setenv("HOME", given)
    known = Path(pwd.getpwuid(os.getuid()).pw_dir)

    assert user_home() == known
    assert RulePaths.of(tmp_path).user == known / ".config/handrail/rules.toml"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_home() == tmp_path
    assert RulePaths.of(tmp_path).user == tmp_path / ".config/handrail/rules.toml"


def test_a_user_whom_nobody_knows_has_nothing_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "")
    empty = user_home()
    monkeypatch.setenv("HOME", ".")
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)

    assert (empty, user_home()) == (Path("/"), Path("/"))


def test_what_is_private_is_not_read_and_what_is_protected_is_asked_about() -> None:
    options = {"mode": "open", "sandboxed": True, "protected": ["conf"], "private": ["runs/mine"]}
    book = bare(RulePaths(), **options)
    on = [
        Access(verb, f"file:{path}")
        for path in ("runs/mine", "runs/mine/a", "runs/mines", "conf/a")
        for verb in (READ, WRITE)
    ]

    assert [(str(one), type(judged(book, SAVE, (one,))).__name__) for one in on] == [
        ("read file:runs/mine", "Deny"),
        ("write file:runs/mine", "Allow"),
        ("read file:runs/mine/a", "Deny"),
        ("write file:runs/mine/a", "Allow"),
        ("read file:runs/mines", "Allow"),
        ("write file:runs/mines", "Allow"),
        ("read file:conf/a", "Allow"),
        ("write file:conf/a", "Ask"),
    ]
    assert judged(book, SAVE, (on[0],)) == Deny(
        "reading runs/mine is never allowed",
        Origin("private paths", kind="built-in"),
    )
    assert bare(RulePaths()).rules == ()


def test_what_the_settings_of_git_name_in_a_workspace_is_asked_about(folder: Path) -> None:
    put(folder / ".git/config", "[core]\nhooksPath = hk\n[include]\npath = ../team.cfg\n")
    book = load(RulePaths.of(folder, config=folder / "c"), mode="edits", protected=["mine"])
    paths = ("hk/pre-commit", f"{folder}/HK/x", "team.cfg", "mine", "sub/hk/x", "other.cfg")

    asked = [judged(book, accesses=(Access(WRITE, f"file:{path}"),)) for path in paths]

    assert [one.question if isinstance(one, Ask) else "" for one in asked] == [
        "Allow `save` to change hk/pre-commit? (hk/pre-commit is protected: git runs the hooks in it)",
        f"Allow `save` to change {folder}/HK/x? ({folder}/HK/x is protected: git runs the hooks in it)",
        "Allow `save` to change team.cfg? (team.cfg is protected: git runs commands from it)",
        "Allow `save` to change mine? (mine is protected: your application protects it)",
        "",
        "",
    ]
