"""Decision texts: an approval request's question, and a denial's reason.

A reason is a clause without a full stop: the executor puts it into the result for the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from handrail import Access, Ask, CheckedCall
from handrail.permissions import Approvers, Grade
from handrail.policy._decisions.hosts import name_folders, name_hosts
from handrail.policy._decisions.opinions import (
    CATASTROPHIC,
    UNREADABLE,
    Opinion,
    ReadCommand,
    written_commands,
)
from handrail.policy._decisions.wording import describe_accesses, quote_command
from handrail.policy._rules.mode import Mode
from handrail.policy._rules.shell_command import MatchedCommand, ShellCommand
from handrail.sources import describe_sources

_USUAL_SHELL = "bash"
_MAX_QUOTED_CHARS = 200
_MAX_CAUSE_CHARS = 60


def format_denial(opinion: Opinion) -> str:
    """Return why a call is denied, for the model."""
    if opinion.origin is UNREADABLE:
        return "the permission rules cannot be loaded"  # why contains paths, which are not for it
    if opinion.origin.kind == "mode":
        return opinion.reason
    if opinion.origin.kind == "built-in":
        return f"{opinion.about} is never allowed" if opinion.about else opinion.reason
    reason = f" ({opinion.reason})" if opinion.reason else ""
    return f"rule {opinion.origin.rule!r} denies {opinion.about or 'this call'}{reason}"


def format_question(tool: str, accesses: Sequence[Access], opinion: Opinion) -> str:
    """Return the question whether a call may run."""
    is_sole = len({access.resource for access in accesses}) <= 1
    action = describe_accesses(accesses) if accesses else "run"
    return f"Allow `{tool}` to {action}?{_format_note(opinion, is_sole=is_sole)}"


def ask_about_call(tool: str, accesses: Sequence[Access], opinion: Opinion) -> Ask:
    """Return the question about a call."""
    question = format_question(tool, accesses, opinion)
    return Ask(question, opinion.origin, opinion.once, approvers=opinion.approvers)


def add_sources(asked: Ask, call: CheckedCall, opinion: Opinion, *, in_workspace: bool) -> Ask:
    """Return a question with the sources a rule asks about, and whether a model may answer."""
    lines: list[str] = []
    if opinion.sources:
        every = call.find_sources(in_workspace=in_workspace)
        lines = describe_sources(every, about=opinion.sources)
    question = "\n".join((asked.question, *lines))
    return replace(asked, question=question, review=opinion.review, in_workspace=in_workspace)


def first_opinion(opinions: Sequence[Opinion]) -> Opinion:
    """Return the deciding opinion. If it asks, every asking rule says who may answer."""
    first = opinions[0]
    asks = [opinion.approvers for opinion in opinions if opinion.verdict == "ask"]
    about = [one for opinion in opinions if opinion.verdict == "ask" for one in opinion.sources]
    may_review = all(one.review and not one.once for one in opinions if one.verdict == "ask")
    approvers = reduce(Approvers.__or__, asks, first.approvers)
    sources = tuple(dict.fromkeys(about)) if first.verdict == "ask" else ()
    once = first.once or any(one.once for one in opinions if one.verdict == "ask" and one.sources)
    return first._replace(approvers=approvers, sources=sources, review=may_review, once=once)


def describe_consequence(command: ShellCommand, parts: Sequence[MatchedCommand], mode: Mode) -> str:
    """Return the consequence for which a command needs approval in a mode, or "".

    ``parts`` are its simple commands, with the rules allowing them.
    """
    # the patterns of commands cost much to compile, and most programs run no commands
    from handrail.policy._consequences.consequences import IN_EVERY_MODE, find_consequences
    from handrail.policy._consequences.table import REASONS

    for kind, cause in find_consequences(command, frozenset(written_commands(parts))).items():
        if mode is not Mode.OPEN or kind in IN_EVERY_MODE:
            return f"{REASONS[kind]}: {quote_command(cause[:_MAX_CAUSE_CHARS])}"
    return ""


def ask_about_command(
    tool: str, read: ReadCommand, accesses: Sequence[Access], opinion: Opinion, *, sandboxed: bool
) -> Ask:
    """Return the question about a shell command, with its parts and their grades."""
    from handrail.policy._consequences.grades import grade_parts

    chosen = written_commands(read.matched)
    parts = grade_parts(read.spelled, read.known, read.matched, chosen=chosen, sandboxed=sandboxed)
    if opinion.origin is CATASTROPHIC:
        parts = tuple(replace(part, grade=Grade.LOSES, removes=None) for part in parts)
    question = _format_command_question(tool, read.spelled, accesses, opinion)
    return Ask(question, opinion.origin, opinion.once, parts, opinion.approvers)


def _format_command_question(
    tool: str, command: ShellCommand, accesses: Sequence[Access], opinion: Opinion
) -> str:
    """Return the question whether a shell command may run, and reach hosts."""
    text = command.text
    is_sole = command.simple is not None and len(command.simple) == 1
    note = _format_note(opinion, is_sole=is_sole)
    what = "this command" if tool == _USUAL_SHELL else f"`{tool}` to run this command"
    opened = {"reach": name_hosts(accesses), "change": name_folders(accesses)}
    named = [f"{verb} {names}" for verb, names in opened.items() if names]
    reach = f", and let it {', and '.join(named)}" if named else ""
    if len(text) > _MAX_QUOTED_CHARS:
        return f"Allow {what} of {len(text):,} characters{reach}?{note}"
    return f"Allow {what}{reach}? {quote_command(text)}{note}"


def _format_note(opinion: Opinion, *, is_sole: bool) -> str:
    """Return why approval is needed. The question already names the sole effect."""
    if not opinion.about:
        return f" ({opinion.reason})" if opinion.reason else ""
    reason = opinion.reason or f"rule {opinion.origin.rule!r} asks"
    return f" ({reason})" if is_sole else f" ({opinion.about}: {reason})"
