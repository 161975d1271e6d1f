"""Every command that a shell line could run, as far as its text shows: for rules that deny.

Where the strict reader gives up, this one goes on. It sees through quotes, substitutions and
wrappers, takes what it cannot know for empty, and reads again, without regard to quotes, whatever
does not come out even. It may name commands that never run; nothing is allowed by what it names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from handrail.policy._scan import Reader
from handrail.policy._wrappers import Unwrapped, base, feeds_on_lines, unwrap

_LEVELS = 8
"""Lines within lines, as in ``sh -c 'sh -c ...'``."""
_SPARE = 8_000
"""Characters of inner lines; beyond, the text is read once more without regard to quotes."""
_BLIND = str.maketrans(dict.fromkeys("'\"`(){}#<", "\n") | {"\\": ""})


def commands(text: str) -> tuple[tuple[str, ...], ...]:
    """Every command that the text could run, wrapped and unwrapped, each once, in order."""
    return tuple(_explore(text).commands)


def redirects(text: str) -> tuple[str, ...]:
    """Every file that the text could open by a redirection, each once, in order."""
    return tuple(dict.fromkeys(_explore(text).targets))


@dataclass(slots=True)
class _Findings:
    """What came out of all lines so far."""

    commands: dict[tuple[str, ...], None] = field(default_factory=dict[tuple[str, ...], None])
    targets: list[str] = field(default_factory=list[str])
    values: dict[str, str] = field(default_factory=lambda: {"IFS": " "})


@lru_cache(maxsize=8)
def _explore(text: str) -> _Findings:
    findings = _Findings()
    waiting = deque([(text, 0), (text.replace("\\\n", ""), 0)])
    seen: set[str] = set()
    left = len(text) + _SPARE
    complete = True
    while waiting:
        line, level = waiting.popleft()
        if line in seen:
            continue
        seen.add(line)
        left -= len(line)
        if left < 0 or level > _LEVELS:
            complete = False
        else:
            waiting += [(more, level + 1) for more in _read(line, findings)]
    if not complete:
        deque(_read(text.translate(_BLIND), findings), maxlen=0)
    return findings


def _read(text: str, findings: _Findings) -> Iterator[str]:
    """Read one line; gives the lines inside of it."""
    reader = Reader(text, findings.values)
    reader.read()
    findings.targets += reader.targets
    yield from reader.lines
    found = {one: unwrap(one.argv) for one in reader.found}
    if reader.feeds:
        fed = [one for one, inner in found.items() if _is_fed(one.argv, inner)]
        yield from reader.bodies if fed else ()
        written = {base(target) for target in reader.targets}
        if any(one.piped or not written.isdisjoint(map(base, one.argv)) for one in fed):
            found = {one: unwrap(one.argv, opened=True) for one in found}
    found |= {one: unwrap(one.argv, opened=True) for one in dict.fromkeys(reader.naming)}
    for one, inner in found.items():
        findings.commands[one.argv] = None
        findings.commands |= dict.fromkeys(inner.commands)
        yield from inner.lines
    if reader.doubtful:
        yield text.translate(_BLIND)


def _is_fed(argv: tuple[str, ...], inner: Unwrapped) -> bool:
    return any(feeds_on_lines(command) for command in (argv, *inner.commands))
