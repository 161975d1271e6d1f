"""Examples: calls that a rule says it means, or does not mean, each checked when it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from handrail import Access, Effect, Spec
from handrail.policy._errors import Unusable
from handrail.policy._index import Commands
from handrail.policy._rule import Example, Rule
from handrail.policy._shell import parts, read_line


@dataclass(frozen=True, slots=True)
class Tried:
    """An example, and whether the rule does what it says."""

    rule: Rule
    example: Example
    wanted: bool
    holds: bool

    def __str__(self) -> str:
        key = "match" if self.wanted else "not_match"
        says = "holds" if self.holds else "does not hold"
        return f"the example in {key} {says}: {self.example}"


def tries(rule: Rule) -> list[Tried]:
    """All examples of a rule, tried."""
    return [
        Tried(rule, example, wanted, holds(rule, example) == wanted)
        for example, wanted in rule.examples
    ]


def holds(rule: Rule, example: Example) -> bool:
    """Whether a rule means an example."""
    if example.text and rule.commands:
        return means_line(rule, example.text)
    if example.text and rule.touches:
        return _touches(rule, (accessed(example.text),))
    if example.text:
        return rule.concerns(_spec(example.text, example))
    return (
        rule.concerns(_spec(example.tool or "tool", example))
        and rule.fits(example.args)
        and (not rule.touches or _touches(rule, example.accesses))
        and (not rule.commands or means_line(rule, str(example.args.get("command", ""))))
    )


def means_line(rule: Rule, text: str) -> bool:
    """Whether a rule means a command line: all of it, to allow it; any of it, to deny it or ask."""
    line, named = read_line(text), Commands([rule])
    if rule.decide != "allow":
        return rule in named.naming(line.rough)
    seen = parts(line.plain or (), named, lambda _: True)
    return bool(seen) and all(part.rule is not None for part in seen)


def accessed(text: str) -> Access:
    """An access as an example writes it: a verb and a resource."""
    verb, _, resource = text.partition(" ")
    try:
        return Access(Effect[verb.upper()], resource)
    except (KeyError, ValueError):
        raise Unusable(f"{text!r} is no access: write it as 'read file:src/a.py'") from None


def _touches(rule: Rule, accesses: tuple[Access, ...]) -> bool:
    if rule.decide == "allow":
        return bool(accesses) and all(
            any(touch.covers(one) for touch in rule.touches) for one in accesses
        )
    return any(touch.meets(one) for touch in rule.touches for one in accesses)


def _spec(name: str, example: Example) -> Spec:
    return Spec(
        name=name, description="", input_schema={}, tags=example.tags, effect=example.effect
    )
