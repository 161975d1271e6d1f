"""Proposes rules for remembered approvals: a command word for word, a folder, or a host.

In a sandbox, a person can also choose a whole program. Each proposal is tested with the call
itself before a person sees it.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from handrail import DESTROY, WRITE, Access, Allow, Call, CheckedCall
from handrail._support import is_list, is_object
from handrail._support.visible import list_unseen
from handrail.permissions import Pending
from handrail.policy._decisions.hosts import name_hosts
from handrail.policy._decisions.rulebook import Rulebook
from handrail.policy._decisions.safeguards import describe_catastrophe, find_protection
from handrail.policy._decisions.tool_rules import make_shell_spec
from handrail.policy._rules.command import KINDS
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.glob import is_glob
from handrail.policy._rules.index import CommandIndex
from handrail.policy._rules.parse import parse
from handrail.policy._rules.rule import Level, Rule
from handrail.policy._rules.shell_command import (
    ShellCommand,
    match_commands,
    read_shell_command,
)
from handrail.policy._rules.toml_text import rule_text
from handrail.policy._shell.wrappers import runs_its_input, runs_others, unwrap

Table = dict[str, Any]
"""A rule as a TOML table."""

LINE_ONLY = frozenset(
    """
    find fd ed ex vi vim nvim emacs nano less more man gdb lldb tmux screen ipython jupyter
    hyperfine dotenv
    sudo doas su pkexec runuser setpriv eval exec source alias set export unset trap
    printf read declare typeset readonly local umask hash shopt enable bind pushd popd
    rm rmdir unlink shred srm dd truncate mkfs fdisk parted mv ln chmod chown chgrp kill pkill
    killall crontab at systemctl service reboot shutdown mount umount sed
    java groovy kotlin scala ts-node tsx
    curl wget nc ncat netcat socat telnet ssh scp sftp rsync ftp aria2c http https ping dig host
    nslookup traceroute whois handrail
    kubectl helm terraform pulumi ansible ansible-playbook aws gcloud az heroku
    vercel netlify psql mysql mongo mongosh redis-cli sqlite3 docker podman
    """.split()
)
"""Programs that run anything, destroy files or connect anywhere: only whole lines are remembered.

Wrapper programs are in ``_shell/wrappers``.
"""
_LINE_ONLY_PAIRS = frozenset(
    ("git", name)
    for name in (
        "clean reset checkout restore rm branch stash push worktree reflog gc prune tag update-ref "
        "filter-branch switch config remote submodule"
    ).split()
)
"""Subcommands that lose work or change what others use."""
_MANY_COMMANDS = frozenset("git npm yarn pnpm cargo docker gh uv pip go".split())
"""Programs whose subcommands say nothing about each other."""
_TASK_RUNNERS = frozenset("make gmake rake task mvn mvnw gradle gradlew ant".split())
"""Programs running whatever their arguments name."""
_WHOLE_LINE = "this command, word for word"
_LAYOUT = str.maketrans("", "", "\n\t")
"""Visible, but unprintable characters."""
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")


class RuleProposal(NamedTuple):
    """Rules that would have allowed a call, as tables, with a description."""

    tables: list[Table]
    width: str = ""


def propose_rules(pending: Pending, rulebook: Rulebook) -> list[RuleProposal]:
    """Return rules to store for skipping a call's approval, the narrowest first."""
    if explain_refusal(pending, rulebook):
        return []
    tool = pending.call.name
    if not rulebook.is_shell_tool(tool):
        return [RuleProposal(tables) for tables in [_propose_for_accesses(pending)] if tables]
    command = rulebook.read_command(str((_read_args(pending.call) or {}).get("command")))
    proposals = _propose_for_command(pending, command, rulebook)
    hosts = [access for access in pending.accesses if access.resource.startswith("net:")]
    return _add_hosts(proposals, pending, hosts, rulebook) if hosts else proposals


def explain_refusal(pending: Pending, rulebook: Rulebook) -> str:
    """Return why an approval cannot be remembered, as a clause; empty if it can."""
    args = _read_args(pending.call)
    if pending.once or pending.kind != "approval":
        return "it needs approval every time"
    if args is None:
        return "it contains characters that are not visible"
    shell, origin = rulebook.is_shell_tool(pending.call.name), pending.origin
    if origin is not None and origin.kind != "mode":
        answered = shell and rulebook.is_answered_by_line(origin)
        if not answered:
            return "a rule asks about it every time"
    if shell:
        command = args.get("command")
        is_text = isinstance(command, str) and command.strip() != ""
        return read_shell_command(command).too_big if is_text else "it has no command"
    if not _propose_for_accesses(pending):
        return "it destroys something, is protected, or has an unusual name"
    return ""


def _read_args(call: Call) -> dict[str, Any] | None:
    """Return a call's arguments; None if some characters would be invisible to a person."""
    try:
        args: Any = json.loads(str(call.args) or "{}")
    except (ValueError, RecursionError):
        return None
    return args if is_object(args) and all(map(_is_visible, _strings_in(args))) else None


def _is_visible(text: str) -> bool:
    return text.translate(_LAYOUT).isprintable() and not list_unseen(text)


def _strings_in(value: Any) -> Iterator[str]:
    """Yield all strings in a JSON value, keys included. Not recursive: a value can be deep."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif is_object(item):
            waiting += [*item, *item.values()]
        elif is_list(item):
            waiting += item


def _add_hosts(
    proposals: Sequence[RuleProposal], pending: Pending, hosts: Sequence[Access], rulebook: Rulebook
) -> list[RuleProposal]:
    """Return proposals that also open hosts, or only hosts, if the command needs no approval."""
    tool, names = pending.call.name, name_hosts(hosts)
    access = list(dict.fromkeys(_widen(Access(WRITE, host.resource)) for host in hosts))
    table: Table = {"decide": "allow", "tools": [tool], "access": access}
    opens = f"{names} for all commands"
    everything = (Access(DESTROY, "*"),)
    without = CheckedCall.recorded(pending.call, make_shell_spec(tool), everything)
    if isinstance(rulebook(without), Allow):
        return [RuleProposal([table], opens)]
    return [RuleProposal([*one.tables, table], f"{one.width}, and {opens}") for one in proposals]


def _propose_for_command(
    pending: Pending, command: ShellCommand, rulebook: Rulebook
) -> list[RuleProposal]:
    tool = pending.call.name
    start: Table = {"decide": "allow", "tools": [tool]}
    exact = [{**start, "line": command.text}]  # no one saw other commands: decision 042
    allows = rulebook.allowing(tool)
    parts = match_commands(command.simple or (), CommandIndex(allows), _every_rule)
    unmatched = [part.argv for part in parts if part.rule is None]
    by_mode = pending.origin is None or pending.origin.kind == "mode"
    if not by_mode or not unmatched or any(map(_is_line_only, unmatched)):
        return [RuleProposal(exact, _WHOLE_LINE)]
    words = [{**start, "command": [list(argv)]} for argv in unmatched]
    proposals = [RuleProposal(words, _WHOLE_LINE)]
    if rulebook.is_sandboxed:
        proposals += _propose_in_sandbox(start, unmatched)
    return [one for one in proposals if _allows_all(one.tables, command, allows)] or [
        RuleProposal(exact, _WHOLE_LINE)
    ]


def _propose_in_sandbox(start: Table, commands: Sequence[tuple[str, ...]]) -> list[RuleProposal]:
    """Return wider rules for commands the kernel keeps in the workspace."""
    if any(argv[0] == "cd" for argv in commands):
        return []  # in another folder, a rule for a path would mean another file
    leading = list(dict.fromkeys(_leading_words(argv) for argv in commands))
    programs = list(dict.fromkeys((argv[0],) for argv in commands))
    if not _TASK_RUNNERS.isdisjoint(argv[0] for argv in commands):
        return []
    proposals: list[RuleProposal] = []
    for several in dict.fromkeys((tuple(leading), tuple(programs))):
        if any(words[0] in _MANY_COMMANDS and words[1:2] == () for words in several):
            continue
        anything = {"flags": "any", "operands": "any", "sandboxed": True}
        tables = [{**start, "command": [list(words)], **anything} for words in several]
        names = " and ".join(f"`{' '.join(words)} …`" for words in several)
        proposals.append(RuleProposal(tables, f"{names}, in the sandbox"))
    return proposals


def _leading_words(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the program, and its subcommand if the second word can be one."""
    has_subcommand = len(argv) > 1 and _BARE.fullmatch(argv[1]) is not None
    return argv[: 1 + has_subcommand]


def _allows_all(tables: Sequence[Table], command: ShellCommand, allows: tuple[Rule, ...]) -> bool:
    rules = (*allows, *(rule for table in tables for rule in _parse_table(table)))
    matched = match_commands(command.simple or (), CommandIndex(rules), _every_rule)
    return all(part.rule is not None for part in matched)


def _every_rule(_rule: Rule) -> bool:
    return True


def _parse_table(table: Table) -> tuple[Rule, ...]:
    try:
        return parse(rule_text(table), file="proposal", level=Level.RUN).rules
    except InvalidRule:
        return ()


def _is_line_only(argv: tuple[str, ...]) -> bool:
    """Return whether a command is only remembered within one whole line."""
    name, inner = argv[0], unwrap(argv)
    return (
        name in LINE_ONLY
        or argv[:2] in _LINE_ONLY_PAIRS
        or _PROGRAM.fullmatch(name) is None
        or runs_others(name)
        or runs_its_input(argv)
        or bool(inner.commands or inner.nested or describe_catastrophe(argv))
        or any(not KINDS["path"](word.rpartition("=")[2]) for word in argv[1:])
    )


def _propose_for_accesses(pending: Pending) -> list[Table]:
    accesses = pending.accesses
    if not accesses or any(_always_needs_approval(access) for access in accesses):
        return []
    table: Table = {"decide": "allow", "tools": [pending.call.name]}
    if all(access.resource != "*" for access in accesses):
        table["access"] = list(dict.fromkeys(map(_widen, accesses)))
    rules = _parse_table(table)
    return [table] if rules and _covers_all(rules[0], accesses) else []


def _covers_all(rule: Rule, accesses: Sequence[Access]) -> bool:
    return not rule.touches or all(
        any(touch.covers(access) for touch in rule.touches) for access in accesses
    )


def _always_needs_approval(access: Access) -> bool:
    """Return whether an access destroys, is protected, or has a name a glob could misread."""
    path = access.resource.partition(":")[2]
    odd = access.resource != "*" and (is_glob(path) or path.startswith("~"))
    return access.verb == DESTROY or bool(find_protection(access)) or odd


def _widen(access: Access) -> str:
    """Return an access as wide as useful: the folder for a file, a whole host."""
    scheme, _, path = access.resource.partition(":")
    verb = access.verb.name.lower()
    folder = posixpath.dirname(path)
    if scheme == "file" and folder and not path.startswith(("/", "..")):
        return f"{verb} file:{folder}/**"
    if scheme == "net" and path:
        return f"{verb} net:{path.split('/')[0]}/**"
    return f"{verb} {access.resource}"


def merge_tables(tables: Sequence[Table]) -> list[Table]:
    """Merge tables: each command once, and one table for each tool's accesses."""
    merged: dict[str, Table] = {}
    for table in tables:
        by_access = "access" in table
        key = json.dumps([table["tools"], by_access] if by_access else table)
        same = merged.setdefault(key, {**table})
        if by_access:
            same["access"] = list(dict.fromkeys([*same["access"], *table["access"]]))
    return list(merged.values())
