"""Examples: calls a rule must or must not match, checked when its file is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from handrail import Access, Effect, Spec
from handrail.policy._rules.errors import InvalidRule
from handrail.policy._rules.index import CommandIndex
from handrail.policy._rules.rule import Example, Rule
from handrail.policy._rules.shell_command import match_commands, read_shell_command


@dataclass(frozen=True, slots=True)
class ExampleResult:
    """An example, and whether the rule behaves as the example says."""

    rule: Rule
    example: Example
    wanted: bool
    """Whether the rule should match: True for ``match``, False for ``not_match``."""
    holds: bool

    def __str__(self) -> str:
        key = "match" if self.wanted else "not_match"
        matches = "matches" if self.wanted == self.holds else "does not match"
        return f"the rule {matches} {self.example}, an example in `{key}`"


def check_examples(rule: Rule) -> list[ExampleResult]:
    """Test a rule with its examples."""
    return [
        ExampleResult(rule, example, wanted, holds(rule, example) == wanted)
        for example, wanted in rule.examples
    ]


def holds(rule: Rule, example: Example) -> bool:
    """Return whether a rule matches an example."""
    if example.text and rule.line:
        return example.text == rule.line
    if example.text and rule.commands:
        return matches_shell_command(rule, example.text)
    if example.text and rule.touches:
        return _matches_accesses(rule, (parse_access(example.text),))
    if example.text:
        return rule.concerns(_example_spec(example.text, example))
    return (
        rule.concerns(_example_spec(example.tool or "tool", example))
        and rule.fits(example.args)
        and (not rule.touches or _matches_accesses(rule, example.accesses))
        and rule.line in ("", example.args.get("command"))
        and (not rule.commands or matches_shell_command(rule, str(example.args.get("command", ""))))
    )


def matches_shell_command(rule: Rule, text: str) -> bool:
    """Return whether a rule matches a shell command: all of it for an allow, else any part."""
    command, index = read_shell_command(text), CommandIndex([rule])
    if rule.decide != "allow":
        return rule in index.rules_against(command.possible)
    matched = match_commands(command.simple or (), index, lambda _: True)
    return bool(matched) and all(part.rule is not None for part in matched)


def parse_access(text: str) -> Access:
    """Read an access from an example: a verb and a resource."""
    verb, _, resource = text.partition(" ")
    try:
        return Access(Effect[verb.upper()], resource)
    except (KeyError, ValueError):
        raise InvalidRule(
            f"invalid access {text!r} in an example; write it as 'read file:src/a.py'"
        ) from None


def _matches_accesses(rule: Rule, accesses: tuple[Access, ...]) -> bool:
    if rule.decide == "allow":
        return bool(accesses) and all(
            any(touch.covers(access) for touch in rule.touches) for access in accesses
        )
    return any(touch.meets(access) for touch in rule.touches for access in accesses)


def _example_spec(name: str, example: Example) -> Spec:
    return Spec(
        name=name, description="", input_schema={}, tags=example.tags, effect=example.effect
    )
