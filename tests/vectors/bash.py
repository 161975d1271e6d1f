"""Command lines that hide another command: none runs without a question, whatever rules ship."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from handrail import Access, Allow, Ask, Call, Decision, Spec
from handrail.policy import Rulebook, shipped
from handrail.policy._lexer import lex
from policy.shell_truth import SHELLS, Reading, differences
from policy.test_lexer_fuzz import accepted, naive
from vectors.stage import line

READING = shipped("read_only")
DEVELOPING = shipped("read_only", "development")
POLICIES: Sequence[Callable[..., Decision]] = (
    Rulebook(READING, mode="ask"),
    Rulebook(DEVELOPING, mode="ask"),
)
FUZZED = "bash-185"
LINES = 1_000


def holds(
    vector: dict[str, Any],
    policies: Sequence[Callable[..., Decision]] = POLICIES,
    lexer: Callable[[str], Reading | None] = lex,
) -> bool:
    """Whether a line runs only where it is expected to."""
    if vector["id"] == FUZZED:
        return _reads_as_shells_do(lexer)
    outcomes = [line(policy, vector["input"]["command"]) for policy in policies]
    if vector["expected"] == "allow":
        return all(one.allowed for one in outcomes)
    return all(one.asked for one in outcomes)


def _reads_as_shells_do(lexer: Callable[[str], Reading | None]) -> bool:
    """Random lines, each read by real shells too: not one is read in another way."""
    lines = accepted(lexer, seed=185)
    return not any(
        differences(shell, some)
        for some in (list(islice(lines, 100)) for _ in range(LINES // 100))
        for shell in sorted(SHELLS)
    )


def by_prefix(call: Call, _spec: Spec, _accesses: tuple[Access, ...]) -> Decision:
    """The control: a line is what it begins with."""
    command = _command(call)
    return Allow() if command.startswith(_PREFIXES) else Ask("?")


def by_words(call: Call, _spec: Spec, _accesses: tuple[Access, ...]) -> Decision:
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


def _command(call: Call) -> str:
    args = json.loads(call.args) if isinstance(call.args, str) else call.args
    return str(args["command"])


_PREFIXES = tuple(
    sorted(
        {" ".join(command.words) for rule in READING for command in rule.commands}
        | {"find", "sed", "sort", "git"}
    )
)


def control_caught(vectors: list[dict[str, Any]]) -> int:
    """How many vectors pass a policy by prefixes, or one by shlex; and the lexer by shlex."""
    return sum(
        not holds(vector, (by_prefix,), naive) or not holds(vector, (by_words,), naive)
        for vector in vectors
    )
