"""Command lines that hide another command: none runs without a question, whatever rules ship."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from handrail import Allow, Ask, CheckedCall, Decision
from handrail.policy import Rulebook, builtin_rules
from policy.shell.shell_truth import SHELLS, Reading, differences
from policy.shell.test_strict_fuzz import accepted, naive
from vectors.stage import line

READING = builtin_rules("read_only")
DEVELOPING = builtin_rules("read_only", "development")
POLICIES: Sequence[Callable[..., Decision]] = (
    Rulebook(READING, mode="ask"),
    Rulebook(DEVELOPING, mode="ask"),
)
FUZZED = "bash-185"
LINES = 1_000
Lines: TypeAlias = Callable[[int], Iterator[tuple[str, Reading]]]
"""From a seed to random lines, and how each is read."""


def holds(
    vector: dict[str, Any],
    policies: Sequence[Callable[..., Decision]] = POLICIES,
    lines: Lines = accepted,
) -> bool:
    """Whether a line runs only where it is expected to."""
    if vector["id"] == FUZZED:
        return _reads_as_shells_do(lines)
    outcomes = [line(policy, vector["input"]["command"]) for policy in policies]
    if vector["expected"] == "allow":
        return all(one.allowed for one in outcomes)
    return all(one.asked for one in outcomes)


def _reads_as_shells_do(lines: Lines) -> bool:
    """Random lines, each read by real shells too: not one is read in another way."""
    read = lines(185)
    return not any(
        differences(shell, some)
        for some in (list(islice(read, 100)) for _ in range(LINES // 100))
        for shell in sorted(SHELLS)
    )


def by_prefix(call: CheckedCall) -> Decision:
    """The control: a line is what it begins with."""
    command = _command(call)
    return Allow() if command.startswith(_PREFIXES) else Ask("?")


def by_words(call: CheckedCall) -> Decision:
    """The control: a line is what shlex makes of it, cut at the operators that come to mind."""
    try:
        words = shlex.split(_command(call))
    except ValueError:
        return Ask("?")
    commands: list[list[str]] = [[]]
    for word in words:
        if word in {"&&", "||", ";", "|"}:
            commands.append([])
        else:
            commands[-1].append(word)
    known = all(" ".join(one).startswith(_PREFIXES) for one in commands)
    return Allow() if known else Ask("?")


def _command(call: CheckedCall) -> str:
    return str(call.args["command"])


_PREFIXES = tuple(
    sorted(
        {" ".join(command.words) for rule in READING for command in rule.commands}
        | {"find", "sed", "sort", "git"}
    )
)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors pass a policy by prefixes, or one by shlex; and the lexer by shlex."""
    lines = partial(accepted, lexer=naive)
    return sum(
        not holds(vector, (by_prefix,), lines) or not holds(vector, (by_words,), lines)
        for vector in vectors
    )
