"""The built-in rules with the real programs: what they allow as reading reads, however it is written."""

from __future__ import annotations

import os
import random
import shlex
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from handrail import DESTROY, Access, Allow, Call, CheckedCall, Spec
from handrail.policy import Rule, Rulebook, builtin_rules
from policy.rule_tables import read_rule
from policy.traced import Line, Scratch

PROFILE = os.environ.get("HANDRAIL_PROFILE", "quick")
PART = 1 if PROFILE == "soak" else 5
"""Only soak tries every flag."""
DATA = Path(__file__).parents[2] / "data" / "real-programs.txt"
RULES = builtin_rules("read_only", "development")
RUNNERS = {"coverage", "gmake", "hatch", "pdm", "pipenv", "poetry", "py.test", "python", "python3", "uv"}  # fmt: skip
"""Programs that run a tested one, or are one under another name."""
BASH = Spec(name="bash", description="", input_schema={}, effect=DESTROY)
EXAMPLES = {"number": "1", "sed_lines": "1p", "name": "x", "word": "x", "git_format": "%H"}
"""A value of each kind that is no path."""
SLOW = {"coverage", "mypy", "pip", "pip3", "py.test", "pyright", "pytest"}
INSTALLERS = {"pip", "pip3", "python", "python3", "uv"}
"""They change the environment in which the tests run, so only their lines that read are run."""
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    return Scratch(tmp_path_factory.mktemp("real"))


def programs(*marks: str) -> set[str]:
    """The programs that are listed after one of these marks."""
    lines = DATA.read_text(encoding="utf-8").splitlines()
    marked = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name for mark, _, name in marked if mark in marks}


class Lines:
    """Lines that rules allow, of programs that are listed and installed."""

    def __init__(
        self, scratch: Scratch, rules: Iterable[Rule] = RULES, *, reading: bool = True
    ) -> None:
        self._policy = Rulebook(rules, mode="plan" if reading else "ask", sandboxed=True)
        self._scratch = scratch
        here = {name for name in programs("", "?") if scratch.find(name)}
        here -= set() if reading else INSTALLERS
        self._reading: dict[str, list[Any]] = {}
        """The commands that rules allow, by program."""
        self._known: dict[str, dict[Line, dict[str, str]]] = {}
        """By program and by first words: the flags, each with the kind of its value."""
        for command in (
            one for rule in self._policy.rules for one in rule.commands if rule.decide == "allow"
        ):
            if command.read_only is reading and command.words[0] in here:
                self._reading.setdefault(command.words[0], []).append(command)
                of_program = self._known.setdefault(command.words[0], {})
                of_program.setdefault(command.words, {}).update(
                    {flag.name.replace("#", "5"): flag.kind for flag in command.flags or ()}
                )

    def spelled(self, each: int, part: int = 1) -> list[Line]:
        """For every flag of every program, or for one in some, a few spellings."""
        choice, made = random.Random(0), list[Line]()  # noqa: S311
        for commands in self._known.values():
            for flag in sorted({flag for flags in commands.values() for flag in flags})[::part]:
                tried = [
                    line
                    for words, flags in commands.items()
                    if flag in flags
                    for line in spellings(self._scratch, words, flag, flags[flag])
                ]
                choice.shuffle(tried)
                made += islice(filter(self._lists, tried), each)
        lines = [line for line in dict.fromkeys(made) if self._allows(line)]
        slow = [line for line in lines if line[0] in SLOW]
        left_out = (
            set() if PROFILE == "soak" else {*slow} - {*choice.sample(slow, min(len(slow), 2))}
        )
        return [line for line in lines if line not in left_out]

    def random(self, seed: int, count: int, without: Collection[str] = SLOW) -> list[Line]:
        """Flags, values and operands of one command, also where they do not belong."""
        choice, lines = random.Random(seed), dict[Line, None]()  # noqa: S311
        known = [name for name in self._known if name not in without]
        while len(lines) < count:
            commands = self._known[choice.choice(known)]
            words, own = choice.choice(list(commands.items()))
            line = (*words, *random_words(choice, own, hostile(self._scratch)))
            if line not in lines and self._lists(line) and self._allows(line):
                lines[line] = None
        return list(lines)

    def _lists(self, line: Line) -> bool:
        """Whether a rule lists all words of a line: a quick way to leave most lines out."""
        return any(command.read_words(line) is not None for command in self._reading[line[0]])

    def _allows(self, line: Line) -> bool:
        call = Call("bash", {"command": shlex.join(line)}, "1")
        checked = CheckedCall.recorded(call, BASH, (Access(DESTROY, "*"),))
        return isinstance(self._policy(checked), Allow)


def hostile(scratch: Scratch) -> list[str]:
    """Words that would do harm, if a program took them for something else than the rule does."""
    secret = str(scratch.outside / "secret.txt")
    return [
        secret, "../outside/secret.txt", "@options", "@../outside/secret.txt", "--output=made", "-omade", "-o", "made", "o", "x",
        f"file:{secret}", f"html:{secret}", "%GG", "%(signature)", "signed", "", "-", f"--file={secret}", f"-f{secret}",
        f'import "secret" as $s {{search: "{scratch.outside}"}}; $s',
    ]  # fmt: skip


def spellings(scratch: Scratch, words: Line, flag: str, kind: str) -> Iterator[Line]:
    """A flag in every way in which a program may read it differently from its rule."""
    value, secret = EXAMPLES.get(kind, "x"), str(scratch.outside / "secret.txt")
    for word in (value, *hostile(scratch)):
        yield (*words, flag, word)
        yield (*words, flag, word, "a.txt")
        yield (*words, f"{flag}{word}", "a.txt")
        yield (*words, f"{flag}={word}", "a.txt", "b.txt")
        yield (*words, "x", flag, word, "made")
    for end in range(3, len(flag)):
        yield (*words, flag[:end], secret)
        yield (*words, f"{flag[:end]}=made", "a.txt")
    for letter in LETTERS if flag[1:2].isalpha() and not flag[2:] else "":
        for word in ("x", "1"):
            yield (*words, f"{flag}{letter}", word, "made")
            yield (*words, f"-{letter}{flag[1]}", word, "made")


def random_words(choice: random.Random, own: dict[str, str], harm: list[str]) -> Iterator[str]:
    flags = list(own) or [""]
    for _ in range(choice.randint(1, 5)):
        flag = choice.choice(flags)
        usual = EXAMPLES.get(own.get(flag, ""), "a.txt")
        value = choice.choice([usual, usual, choice.choice(harm)])
        yield from choice.choice(
            [[flag], [flag], [flag, value], [f"{flag}{value}"], [f"{flag}={value}"], [value], ["a.txt"], ["--"],
             [flag[:2] + choice.choice(flags)[1:2]], [flag[: choice.randint(1, 9)]]]
        )  # fmt: skip


def test_every_program_of_the_rules_is_listed() -> None:
    named = {
        command.words[0] for rule in RULES if rule.decide == "allow" for command in rule.commands
    }
    assert named == programs("", "?", "-"), f"list each program in {DATA}"


def test_every_rule_that_takes_combined_flags_is_about_programs_that_are_tested() -> None:
    taking = {command.words[0] for rule in RULES for command in rule.commands if command.getopt}
    assert taking - RUNNERS - programs("") == set()


def test_every_program_that_is_to_be_tested_is_here(scratch: Scratch) -> None:
    assert {name for name in programs("") if scratch.find(name) is None} == set()


def loose(command: Any) -> list[Line]:
    """Lines with flags that a rule does not list in these words, of all that it may take for them."""
    flags = {flag.name: flag for flag in command.flags or ()}
    made = [(f"{name}{more}",) for name in flags for more in ("x", "5", "@x", "/x")]
    made += [
        (f"{one}{other[1:]}",) for one in flags for other in flags if len(one) == len(other) == 2
    ]
    made += [(name[:end],) for name in flags for end in range(3, len(name))]
    made += [(f"{name}=x",) for name, flag in flags.items() if not (flag.takes and name[2:])]
    known = {*flags, *(name.replace("#", "5") for name in flags)}
    odd = [line for line in made if line[0] not in known]
    if not {"text", "jq_filter"} & {operand.kind for operand in command.operands or ()}:
        odd.append(("@x",))  # as any text, it is for a program of the workspace
    return [(*command.words, *line, *more) for line in odd for more in ((), ("x",))]


def test_a_rule_about_a_program_that_is_not_tested_takes_exact_flags_only() -> None:
    untested = programs("-", "?") - RUNNERS
    accepted = [
        line
        for rule in RULES
        if rule.decide == "allow"
        for command in rule.commands
        if command.words[0] in untested
        for line in loose(command)
        if command.read_words(line) is not None
    ]
    assert accepted == []


def test_a_rule_that_takes_other_flags_is_caught() -> None:
    rule = read_rule(decide="allow", command="go", flags=["-o:text", "-v"], getopt=True)
    [command] = rule.commands
    accepted = {line[1] for line in loose(command) if command.read_words(line) is not None}
    assert accepted == {"-ox", "-o5", "-o@x", "-o/x", "-ov", "-oo", "-vo", "-vv"}


def test_what_writes_runs_or_reads_outside_is_seen(scratch: Scratch) -> None:
    secret = scratch.outside / "secret.txt"
    made = scratch.inside / "made"
    lines = [
        ("sort", "-o", "made", "a.txt"),
        ("cat", str(secret)),
        ("grep", "-r", "secret", ".."),
        ("strings", "@options"),
        ("git", "log", "-1", "--pretty=%GG", "signed"),
        ("git", "log", "--output=made"),
        ("find", "a.txt", "-exec", "true", ";"),
        ("find", "made", "-delete"),
        ("cat", "a.txt"),
    ]
    seen = scratch.trace(lines)
    assert [*dict.fromkeys(line.partition(": ")[0] for line in seen)] == [
        repr(" ".join(line)) for line in lines[:-1]
    ]
    assert f"'sort -o made a.txt': openat {made}" in seen
    assert f"'cat {secret}': reads {secret}" in seen
    assert f"'find made -delete': unlinkat {made}" in seen


def test_a_rule_that_lists_a_flag_that_writes_is_caught(scratch: Scratch) -> None:
    weak = read_rule(
        decide="allow", command="sort", flags=["-o:path", "-r"], operands=["path*"], read_only=True
    )
    lines = Lines(scratch, [weak])
    assert scratch.trace(lines.spelled(30))
    assert scratch.trace(lines.random(0, 50))


def test_no_spelling_of_a_flag_that_is_allowed_writes_runs_or_reads_outside(
    scratch: Scratch,
) -> None:
    assert scratch.trace(Lines(scratch).spelled(1, PART)) == []


def test_no_random_line_that_is_allowed_writes_runs_or_reads_outside(scratch: Scratch) -> None:
    assert scratch.trace(Lines(scratch).random(0, 250)) == []


def test_a_rule_that_lets_pytest_empty_a_folder_is_caught(tmp_path: Path) -> None:
    scratch, line = Scratch(tmp_path), ("pytest", "-o", "addopts=--basetemp=sub")
    removed = scratch.inside / "sub" / "c.py"
    assert [what for what in scratch.trace([line], reading=False) if "c.py" in what]
    assert not removed.exists()


def test_no_spelling_of_a_flag_of_a_development_tool_replaces_a_file_or_leaves(
    tmp_path: Path,
) -> None:
    scratch = Scratch(tmp_path)
    assert scratch.trace(Lines(scratch, reading=False).spelled(1, PART), reading=False) == []


@pytest.mark.soak
@pytest.mark.timeout(7000)
def test_no_line_of_a_development_tool_replaces_a_file_or_leaves(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path)
    lines = Lines(scratch, reading=False)
    assert (
        scratch.trace([*lines.spelled(1), *lines.random(0, 200, without=())], reading=False) == []
    )


@pytest.mark.soak
@pytest.mark.timeout(7000)
def test_of_many_spellings_that_are_allowed_none_writes_runs_or_reads_outside(
    scratch: Scratch,
) -> None:
    assert scratch.trace(Lines(scratch).spelled(10)) == []


@pytest.mark.soak
@pytest.mark.timeout(7000)
@pytest.mark.parametrize("part", range(10))
def test_of_many_lines_that_are_allowed_none_writes_runs_or_reads_outside(
    scratch: Scratch, part: int, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, did, ran = Lines(scratch), list[str](), 0
    for seed in range(1 + 5 * part, 6 + 5 * part):
        made = lines.random(seed, 2_000)
        did += scratch.trace(made)
        ran += len(made)
        with capsys.disabled():  # a part that is stopped has still told how far it came
            print(f"part {part}: {ran} lines, {len(did)} findings")  # noqa: T201
    assert (did, ran) == ([], 10_000)
