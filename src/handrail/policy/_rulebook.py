"""Rulebook: a policy made of rules, a mode and a floor. It names the rule that decides."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from handrail import Access, Allow, Ask, Call, Decision, Deny, Effect, Spec
from handrail.judgement import Matched, Origin, Verdict
from handrail.policy._dead import dead
from handrail.policy._errors import Unusable
from handrail.policy._file import parse
from handrail.policy._floor import own
from handrail.policy._index import Commands, Index, Speaking
from handrail.policy._mode import Mode, verdict
from handrail.policy._rule import Level, Rule, Touch
from handrail.policy._shapes import is_table
from handrail.policy._shell import Line, Part, parts, read_line
from handrail.policy._voices import (
    Voice,
    accesses_of_line,
    against,
    against_line,
    floor,
    floor_of_line,
    in_favour,
    perhaps_against,
    spoken,
)

UNREADABLE = Origin("unreadable rules")
NO_LINE = Origin("a shell tool without a line")
SHELL_TAG = "shell"
"""A tool with this tag runs its argument ``command`` as a shell line."""
FILTERED_TAG = "filtered"
"""A tool with this tag passes over, in silence, what the policy denies reading."""
_MOST_REMEMBERED = 4096
_NO_ARGS: Mapping[str, Any] = {}


class _Entry:
    """What the rules have to say of one tool, sorted out once."""

    __slots__ = (
        "defaults",
        "denies",
        "filtered",
        "kept_back",
        "lines",
        "needs_args",
        "remembered",
        "rules",
        "shell",
        "spec",
    )

    def __init__(self, spec: Spec, rules: Sequence[Rule], *, shell: bool, timeless: bool) -> None:
        mine = [rule for rule in rules if rule.concerns(spec)]
        self.spec = spec
        self.shell = shell
        self.filtered = spec.effect == Effect.READ and FILTERED_TAG in spec.tags
        self.rules = Index(rule for rule in mine if not rule.commands)
        self.lines = Commands(rule for rule in mine if rule.commands)
        self.kept_back = [
            (rule, touch)
            for rule in mine
            if rule.decide == "deny" and not rule.args
            for touch in rule.touches
            if Effect.READ in touch.verbs
        ]
        """What is not to be read at all."""
        self.defaults = {
            name: about["default"]
            for name, about in spec.input_schema.get("properties", {}).items()
            if is_table(about) and "default" in about
        }
        """What an argument is, where it is left out."""
        self.denies = any(rule.decide == "deny" for rule in mine)
        self.needs_args = any(rule.args for rule in mine)
        plain = timeless and not shell and not self.needs_args
        self.remembered: tuple[dict[str, Decision], ...] | None = None
        """Decisions by verb and resource, where nothing else matters."""
        if plain:
            self.remembered = ({}, {}, {}, {})


class Rulebook:
    """Judges calls by rules, then by a mode: deny before ask before allow, whatever their order.

    It is the ``policy`` of an executor. ``sandboxed`` says that shell commands run in a sandbox;
    without one, no mode lets a command pass that no rule names. ``protected`` are files and
    folders, as calls name them, that no mode lets be changed unasked, besides the usual ones.
    """

    def __init__(  # noqa: PLR0913  each is an option with a default
        self,
        rules: Iterable[Rule] = (),
        *,
        mode: Mode | str = Mode.ASK,
        sandboxed: bool = False,
        refusal: str = "",
        problems: Iterable[str] = (),
        shell: Iterable[str] = ("bash",),
        protected: Iterable[str] = (),
        root: bool | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: rule.rank))
        self._mode = Mode.of(mode)
        self._sandboxed = sandboxed
        self._refusal = refusal
        """Why everything is denied, where rules could not be read."""
        self.problems = (refusal, *problems) if refusal else tuple(problems)
        """What was wrong with the files that the rules come from, for whoever runs this."""
        self._shell = frozenset(shell)
        self._protected = own(protected)
        self._clock = clock
        self._root = os.geteuid() == 0 if root is None else root
        self._check(self._mode)
        self._lock = threading.Lock()
        """Answers are remembered from other threads."""
        self._entries: dict[str, _Entry] = {}

    @classmethod
    def of(cls, text: str, *, file: str = "rules.toml", **options: Any) -> Rulebook:
        """A policy from the text of one rule file, in the file's own mode unless one is given."""
        read = parse(text, file=file, level=Level.USER)
        chosen: dict[str, Any] = {"mode": read.mode or Mode.ASK, **options}
        return cls(read.rules, **chosen)

    @property
    def mode(self) -> Mode:
        """What happens to a call that no rule speaks of."""
        return self._mode

    def switch(self, mode: Mode | str) -> None:
        """Go on in another mode. A yes that was given before no longer counts."""
        self._check(Mode.of(mode))
        with self._lock:
            self._mode, self._entries = Mode.of(mode), {}

    def _check(self, mode: Mode) -> None:
        if mode is Mode.OPEN and self._root and not self._sandboxed:
            raise Unusable("mode open is refused to root without a sandbox")

    def add(self, rule: Rule) -> None:
        """Take one more rule for the rest of this run."""
        with self._lock:
            self.rules = tuple(sorted((*self.rules, rule), key=lambda one: one.rank))
            self._entries = {}

    def drop(self, rule: Rule) -> None:
        """Forget a rule."""
        with self._lock:
            self.rules = tuple(one for one in self.rules if one != rule)
            self._entries = {}

    def runs_lines(self, tool: str) -> bool:
        """Whether a tool, by what is known of it, runs shell lines."""
        entry = self._entries.get(tool)
        return tool in self._shell if entry is None else entry.shell

    def allowing(self, tool: str) -> tuple[Rule, ...]:
        """The rules that allow calls of a tool now, whatever their arguments."""
        now = self._now()
        return tuple(
            rule
            for rule in self.rules
            if rule.decide == "allow" and not rule.args and rule.counts(now) and rule.names(tool)
        )

    def dead(self, specs: Iterable[Spec] = ()) -> tuple[str, ...]:
        """Rules that can never decide anything; and, given specs, those that name no tool."""
        return tuple(dead(self.rules, list(specs), self._now()))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    @property
    def version(self) -> str:
        """Changes with what makes judgement stricter or looser, except by a remembered yes."""
        lasting = [rule.text for rule in self.rules if not rule.remembered]
        parts = [self._mode.name, self._sandboxed, self._refusal, lasting, self._protected]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def __call__(self, call: Call, spec: Spec, accesses: tuple[Access, ...]) -> Decision:
        """Judge a call."""
        entry = self._entries.get(spec.name)
        if entry is None or entry.spec is not spec:
            entry = self._entry(spec)
        if (known := entry.remembered) is not None and len(accesses) == 1:
            access = accesses[0]
            remembered = known[access.verb]
            decision = remembered.get(access.resource)
            if decision is None:
                decision = self._decided(call, entry, accesses)
                if len(remembered) < _MOST_REMEMBERED:
                    remembered[access.resource] = decision
            return decision
        return self._decided(call, entry, accesses)

    def explain(self, call: Call, spec: Spec, accesses: tuple[Access, ...]) -> tuple[Matched, ...]:
        """Every rule that has something to say of a call, the deciding one first."""
        return tuple(one.matched for one in self._voices(call, self._entry(spec), accesses))

    def _entry(self, spec: Spec) -> _Entry:
        with self._lock:
            # What is dropped meanwhile is dropped with its dictionary.
            rules, entries = self.rules, self._entries
        timeless = all(rule.expires is None for rule in rules)
        shell = spec.name in self._shell or SHELL_TAG in spec.tags
        made = entries[spec.name] = _Entry(spec, rules, shell=shell, timeless=timeless)
        return made

    def _decided(self, call: Call, entry: _Entry, accesses: tuple[Access, ...]) -> Decision:
        first = self._voices(call, entry, accesses)[0]
        if first.verdict == "allow":
            return Allow(first.origin)
        if first.verdict == "deny":
            return Deny(_refusal(entry.spec.name, first), first.origin)
        line = _command(call, entry.defaults) if entry.shell else None
        question = _question(entry.spec.name, line, accesses, first.why)
        return Ask(question, first.origin, first.once)

    def _voices(self, call: Call, entry: _Entry, accesses: Sequence[Access]) -> list[Voice]:
        """All that speak, the deciding one first."""
        if self._refusal:
            return [Voice("deny", Level.BUILT_IN, UNREADABLE, self._refusal)]
        args = {**entry.defaults, **_args(call)} if entry.needs_args else _NO_ARGS
        line = _command(call, entry.defaults) if entry.shell else None
        if line is not None:
            return self._voices_of_line(entry, read_line(line), args, accesses)
        rules = self._current(entry.rules.speaking(accesses))
        wide = {} if entry.filtered else self._current(entry.rules.below(accesses))
        voices = [*floor(accesses, self._protected), *against(rules, args)]
        voices += perhaps_against(wide, args)
        if entry.shell:
            why = "there is no line to read"
            voices.append(Voice("ask", Level.BUILT_IN, NO_LINE, why, once=True))
        voices += in_favour(rules, args, accesses)
        effect = max((one.verb for one in accesses), default=entry.spec.effect)
        return self._with_mode(voices, effect, "")

    def _voices_of_line(
        self, entry: _Entry, line: Line, args: Mapping[str, Any], accesses: Sequence[Access]
    ) -> list[Voice]:
        now = self._now()

        def usable(rule: Rule) -> bool:
            return rule.counts(now) and (not rule.args or rule.fits(args))

        seen = parts(line.plain, entry.lines, usable) if line.plain is not None else ()
        touched = accesses_of_line(line, seen)
        named = [one for one in accesses if one.resource != "*"]
        rules = self._current(entry.rules.speaking([*accesses, *touched]))
        voices = [*floor_of_line(line, self._protected, denies=entry.denies)]
        voices += against_line(entry.lines, line, usable)
        wide = self._current(entry.rules.below(named))
        voices += [*floor([*named, *touched], self._protected), *against(rules, args)]
        voices += perhaps_against(wide, args)
        voices += _below(entry.kept_back, seen)
        allowed = _allowed(seen)
        effect = Effect.DESTROY  # what a line may do is not for its tool to say
        if allowed:
            effect = max(Effect.READ if _reads(part) else Effect.WRITE for part in seen)
        unclear = "it cannot be read with certainty" if line.plain is None else _unnamed(seen)
        return self._with_mode([*voices, *allowed], effect, unclear, line=entry.lines)

    def _with_mode(
        self, voices: list[Voice], effect: Effect, why: str, line: Commands | None = None
    ) -> list[Voice]:
        """The voices and the mode's: it speaks where no rule does, and denies whatever they say."""
        says: Verdict = verdict(self._mode, effect)
        ranked = sorted(voices, key=lambda one: one.rank)
        if ranked and (says != "deny" or ranked[0].verdict == "deny"):
            return ranked
        origin = Origin(f"mode {self._mode}")
        if line is not None and says == "allow" and effect > Effect.READ:
            says, why = self._unnamed(line, why)
        if says == "deny":
            why = "nothing may be changed in this mode"
        return [Voice(says, Level.RUN, origin, why), *ranked]

    def _unnamed(self, rules: Commands, why: str) -> tuple[Verdict, str]:
        """What a loose mode says to a command that no rule names."""
        if not self._sandboxed:
            return "ask", why or "no sandbox is around it"
        if why and rules.tightens:
            return "ask", why
        return "allow", ""

    def _current(self, rules: Speaking) -> Speaking:
        if all(rule.expires is None for rule in rules):
            return rules
        now = self._now()
        return {rule: accesses for rule, accesses in rules.items() if rule.counts(now)}


def _allowed(seen: Sequence[Part]) -> list[Voice]:
    """The rules that allow a line, if every command of it has one."""
    rules = [part.rule for part in seen]
    if not rules or None in rules:
        return []
    return [spoken(rule, "") for rule in dict.fromkeys(rules) if rule is not None]


def _unnamed(seen: Sequence[Part]) -> str:
    """Which command no rule allows."""
    first = next((part.argv for part in seen if part.rule is None), ())
    return f"no rule allows {' '.join(first)[:60]!r}" if first and len(seen) > 1 else ""


def _reads(part: Part) -> bool:
    return part.command is not None and part.command.reads


def _below(kept_back: Sequence[tuple[Rule, Touch]], seen: Sequence[Part]) -> Iterable[Voice]:
    """Asks for commands that read all below a folder where a rule keeps something back."""
    if not kept_back:
        return
    for part in seen:
        if part.command is None or not part.command.goes_deep(part.argv):
            continue
        for folder in list(part.paths) or [part.folder or "."]:
            for rule, touch in kept_back:
                if touch.reaches(folder):
                    why = f"{part.argv[0]} reads all below {folder}"
                    yield Voice("ask", rule.level, rule.origin, why, text=rule.text)


def _args(call: Call) -> Mapping[str, Any]:
    if not isinstance(call.args, str):
        return call.args
    read: Any = json.loads(call.args or "{}")
    return read if is_table(read) else _NO_ARGS


def _command(call: Call, defaults: Mapping[str, Any]) -> str | None:
    line = _args(call).get("command", defaults.get("command"))
    return line if isinstance(line, str) else None


def _refusal(tool: str, voice: Voice) -> str:
    told = voice.why and voice.origin is not UNREADABLE  # a file's path is nothing for a model
    why = f": {voice.why}" if told else ""
    return (
        f"{tool!r} is denied by {voice.origin.rule!r}{why}. Nothing was run. "
        "Go about it another way, or tell the user."
    )


def _question(tool: str, line: str | None, accesses: Sequence[Access], why: str) -> str:
    if line is not None:
        what = f"run {line!r}" if len(line) <= 200 else f"run a line of {len(line)} characters"  # noqa: PLR2004
    else:
        what = ", ".join(map(str, accesses[:5])) + (", and more" if len(accesses) > 5 else "")  # noqa: PLR2004
    reason = f" ({why})" if why else ""
    return f"May {tool} {what}?{reason}"
