"""How wide a remembered yes reaches: a command and its sub-command, a directory, a host.

Wide enough that the same kind of call is not asked about again, never so wide that another kind
passes with it. What is proposed is held against the call itself before anybody sees it.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from typing import Any

from handrail import DESTROY, Access
from handrail.judgement import Pending
from handrail.policy._command import KINDS
from handrail.policy._errors import Unusable
from handrail.policy._file import parse
from handrail.policy._floor import catastrophic, protected
from handrail.policy._glob import is_glob
from handrail.policy._index import Commands
from handrail.policy._rule import Level, Rule
from handrail.policy._shell import parts, read_line
from handrail.policy._toml import rule_text
from handrail.policy._wrappers import feeds_on_lines, runs_others, unwrap

Table = dict[str, Any]
"""A rule as it would be written."""

NEVER = frozenset(
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
"""What runs anything, destroys, or reaches anywhere: a yes to it counts once, whatever is asked.
Those that run other commands are known to the reader of shell lines."""
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_BARE = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")
_FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9._-]*")


def proposed(pending: Pending, allows: tuple[Rule, ...], *, shell: bool) -> list[Table]:
    """The rules that would have allowed a call, as tables; none, where none should be stored."""
    origin, text = pending.origin, str(pending.call.args)
    by_mode = origin is None or (not origin.file and origin.rule.startswith("mode "))
    if pending.once or not pending.question or not by_mode or not text.isprintable():
        return []
    if not shell:
        return _for_accesses(pending)
    args: Any = json.loads(text)
    line = args.get("command")
    return _for_line(pending.call.name, line, allows) if isinstance(line, str) else []


def _for_line(tool: str, text: str, allows: tuple[Rule, ...]) -> list[Table]:
    line = read_line(text)
    if line.plain is None or line.too_big:
        return []
    unknown = [one.argv for one in parts(line.plain, Commands(allows), _always) if one.rule is None]
    if any(_never(argv) for argv in unknown):
        return []
    made = [{"decide": "allow", "tools": [tool], **_command(argv)} for argv in unknown]
    rules = (*allows, *(rule for table in made for rule in _parsed(table)))
    seen = parts(line.plain, Commands(rules), _always)
    return made if all(part.rule is not None for part in seen) else []


def _always(_rule: Rule) -> bool:
    return True


def _parsed(table: Table) -> tuple[Rule, ...]:
    try:
        return parse(rule_text(table), file="proposal", level=Level.RUN).rules
    except Unusable:
        return ()


def _never(argv: tuple[str, ...]) -> bool:
    name, inner = argv[0], unwrap(argv)
    return (
        name in NEVER
        or _PROGRAM.fullmatch(name) is None
        or runs_others(name)
        or feeds_on_lines(argv)
        or bool(inner.commands or inner.lines or catastrophic(argv))
        or any(not KINDS["path"](word.rpartition("=")[2]) for word in argv[1:])
    )


def _command(argv: tuple[str, ...]) -> Table:
    """A command and its sub-commands, the flags that were seen, and paths in the workspace."""
    words, rest = _words(argv)
    flags = list(dict.fromkeys(word for word in rest if word.startswith("-")))
    operands = [word for word in rest if not word.startswith("-")]
    wide: Table = {"command": [words]}
    if flags:
        wide["flags"] = flags
    # What a sub-command takes may be a name of anything, if it does not begin with `./`.
    kind = "place" if len(words) == 1 else "here"
    if operands:
        wide["operands"] = [f"{kind}*"]
    if not all(map(_FLAG.fullmatch, flags)) or not all(map(KINDS[kind], operands)):
        return {"command": [list(argv)]}  # just this, word for word
    return wide


def _words(argv: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """The program and its sub-commands; and all that follows them."""
    end = 1
    while end < len(argv) and _BARE.fullmatch(argv[end]):
        end += 1
    return list(argv[:end]), list(argv[end:])


def _for_accesses(pending: Pending) -> list[Table]:
    accesses = pending.accesses
    if not accesses or any(_kept_back(one) for one in accesses):
        return []
    made: Table = {"decide": "allow", "tools": [pending.call.name]}
    if all(one.resource != "*" for one in accesses):
        made["access"] = list(dict.fromkeys(map(_wide, accesses)))
    rules = _parsed(made)
    return [made] if rules and _covered(rules[0], accesses) else []


def _covered(rule: Rule, accesses: Sequence[Access]) -> bool:
    return not rule.touches or all(
        any(touch.covers(one) for touch in rule.touches) for one in accesses
    )


def _kept_back(access: Access) -> bool:
    """What is asked about each time: what destroys, what is protected, what is no plain name."""
    path = access.resource.partition(":")[2]
    odd = access.resource != "*" and (is_glob(path) or path.startswith("~"))
    return access.verb == DESTROY or protected(access) or odd


def _wide(access: Access) -> str:
    """An access as wide as is useful: a file's directory, a whole host."""
    scheme, _, path = access.resource.partition(":")
    verb = access.verb.name.lower()
    folder = posixpath.dirname(path)
    if scheme == "file" and folder and not path.startswith(("/", "..")):
        return f"{verb} file:{folder}/**"
    if scheme == "net" and path:
        return f"{verb} net:{path.split('/')[0]}/**"
    return f"{verb} {access.resource}"


def merged(tables: Sequence[Table]) -> list[Table]:
    """The same rules in fewer tables: those for one command, or for one tool, made into one."""
    made: dict[str, Table] = {}
    for table in tables:
        key = json.dumps([table["tools"], table.get("command"), "access" in table])
        kept = made.setdefault(key, {**table})
        for several in ("flags", "operands", "access"):
            if several in table or several in kept:
                both = [*kept.get(several, []), *table.get(several, [])]
                kept[several] = list(dict.fromkeys(both))
    return list(made.values())
