"""The scope of a remembered approval: a command with its subcommand, a folder, or a host.

A proposal is wide enough for more calls of the same kind, and never wide enough for another kind.
It is tested with the call itself before a person sees it.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

from handrail import DESTROY, Access, Call
from handrail._support.tables import is_list, is_table
from handrail._support.visible import list_unseen
from handrail.permissions import Pending
from handrail.policy._decisions.safeguards import describe_catastrophe, find_protection
from handrail.policy._rules.command import KINDS
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.glob import is_glob
from handrail.policy._rules.index import CommandIndex
from handrail.policy._rules.parse import parse
from handrail.policy._rules.rule import Level, Rule
from handrail.policy._rules.shell_command import match_commands, read_shell_command
from handrail.policy._rules.toml_text import rule_text
from handrail.policy._shell.wrappers import runs_its_input, runs_others, unwrap

Table = dict[str, Any]
"""A rule as a TOML table."""

NEVER_PROPOSED = frozenset(
    """
    find fd ed ex vi vim nvim emacs nano less more man gdb lldb tmux screen ipython jupyter
    hyperfine dotenv
    sudo doas su pkexec runuser setpriv eval exec source alias set export unset trap
    rm rmdir unlink shred srm dd truncate mkfs fdisk parted mv ln chmod chown chgrp kill pkill
    killall crontab at systemctl service reboot shutdown mount umount sed
    java groovy kotlin scala ts-node tsx
    curl wget nc ncat netcat socat telnet ssh scp sftp rsync ftp aria2c http https ping dig host
    nslookup traceroute whois handrail
    """.split()
)
"""Programs that run anything, destroy files or connect anywhere: an approval is never remembered.

Programs that run other commands are in ``_shell/wrappers``.
"""
_LAYOUT = str.maketrans("", "", "\n\t")
"""Characters that are not printable, but visible."""
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")
_FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9._-]*")


def propose_rules(pending: Pending, allows: tuple[Rule, ...], *, shell: bool) -> list[Table]:
    """Return rules that would have allowed a call, as tables; none if none should be stored."""
    origin = pending.origin
    by_mode = origin is None or origin.kind == "mode"
    args = _read_args(pending.call)
    if pending.once or not pending.question or not by_mode or args is None:
        return []
    if not shell:
        return _propose_for_accesses(pending)
    command = args.get("command")
    if not isinstance(command, str):
        return []
    return _propose_for_command(pending.call.name, command, allows)


def _read_args(call: Call) -> dict[str, Any] | None:
    """Return a call's arguments; None if some characters would be invisible to a person."""
    try:
        args: Any = json.loads(str(call.args) or "{}")
    except (ValueError, RecursionError):
        return None
    return args if is_table(args) and all(map(_is_visible, _strings_in(args))) else None


def _is_visible(text: str) -> bool:
    return text.translate(_LAYOUT).isprintable() and not list_unseen(text)


def _strings_in(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, keys included. Not recursive: a value can be deep."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif is_table(item):
            waiting += [*item, *item.values()]
        elif is_list(item):
            waiting += item


def _propose_for_command(tool: str, text: str, allows: tuple[Rule, ...]) -> list[Table]:
    command = read_shell_command(text)
    if command.simple is None or command.too_big:
        return []
    unmatched = [
        part.argv
        for part in match_commands(command.simple, CommandIndex(allows), _every_rule)
        if part.rule is None
    ]
    if any(_is_never_proposed(argv) for argv in unmatched):
        return []
    tables = [{"decide": "allow", "tools": [tool], **_command_table(argv)} for argv in unmatched]
    rules = (*allows, *(rule for table in tables for rule in _parse_table(table)))
    matched = match_commands(command.simple, CommandIndex(rules), _every_rule)
    return tables if all(part.rule is not None for part in matched) else []


def _every_rule(_rule: Rule) -> bool:
    return True


def _parse_table(table: Table) -> tuple[Rule, ...]:
    try:
        return parse(rule_text(table), file="proposal", level=Level.RUN).rules
    except InvalidRule:
        return ()


def _is_never_proposed(argv: tuple[str, ...]) -> bool:
    name, inner = argv[0], unwrap(argv)
    return (
        name in NEVER_PROPOSED
        or _PROGRAM.fullmatch(name) is None
        or runs_others(name)
        or runs_its_input(argv)
        or bool(inner.commands or inner.nested or describe_catastrophe(argv))
        or any(not KINDS["path"](word.rpartition("=")[2]) for word in argv[1:])
    )


def _command_table(argv: tuple[str, ...]) -> Table:
    """Return a rule for a command and its subcommands, its flags, and paths in the workspace."""
    words, rest = _split_words(argv)
    flags = list(dict.fromkeys(word for word in rest if word.startswith("-")))
    operands = [word for word in rest if not word.startswith("-")]
    wide: Table = {"command": [words]}
    if flags:
        wide["flags"] = flags
    # An operand of a subcommand can be the name of anything, unless it starts with `./`.
    kind = "subpath" if len(words) == 1 else "dot_path"
    if operands:
        wide["operands"] = [f"{kind}*"]
    if not all(map(_FLAG.fullmatch, flags)) or not all(map(KINDS[kind], operands)):
        return {"command": [list(argv)]}  # exactly these words
    return wide


def _split_words(argv: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Return the program with its subcommands, and the words after them."""
    end = 1
    while end < len(argv) and _BARE.fullmatch(argv[end]):
        end += 1
    return list(argv[:end]), list(argv[end:])


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
    """Return whether an access destroys, is protected, or has a name that a glob could misread."""
    path = access.resource.partition(":")[2]
    odd = access.resource != "*" and (is_glob(path) or path.startswith("~"))
    return access.verb == DESTROY or bool(find_protection(access)) or odd


def _widen(access: Access) -> str:
    """Return an access as wide as is useful: the folder of a file, a whole host."""
    scheme, _, path = access.resource.partition(":")
    verb = access.verb.name.lower()
    folder = posixpath.dirname(path)
    if scheme == "file" and folder and not path.startswith(("/", "..")):
        return f"{verb} file:{folder}/**"
    if scheme == "net" and path:
        return f"{verb} net:{path.split('/')[0]}/**"
    return f"{verb} {access.resource}"


def merge_tables(tables: Sequence[Table]) -> list[Table]:
    """Merge tables: one for each command, or for each tool."""
    merged: dict[str, Table] = {}
    for table in tables:
        key = json.dumps([table["tools"], table.get("command"), "access" in table])
        same = merged.setdefault(key, {**table})
        for several in ("flags", "operands", "access"):
            if several in table or several in same:
                both = [*same.get(several, []), *table.get(several, [])]
                same[several] = list(dict.fromkeys(both))
    return list(merged.values())
