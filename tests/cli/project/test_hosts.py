"""Hosts on request, at the command line: rules open them, and no one else does."""

from __future__ import annotations

from cli_harness import Handrail
from handrail.policy import Trust, digest

RULE = '[[rule]]\ndecide = "allow"\naccess = "write net:a.example/**"\n'
LINE = "echo ${http_proxy:-closed}"


def told(handrail: Handrail, *more: str) -> str:
    ran = handrail("tools", "call", "bash", f"command={LINE}", "--mode", "open", *more)
    return f"{ran.out}{ran.err}".partition("\n")[0]


def test_a_rule_of_the_user_opens_a_host_to_commands(handrail: Handrail) -> None:
    assert told(handrail) == "closed"
    handrail.config.mkdir(parents=True)
    (handrail.config / "rules.toml").write_text(RULE, encoding="utf-8")
    assert told(handrail) == "http://127.0.0.1:3128"


def test_neither_a_mode_nor_a_workspace_opens_a_host(handrail: Handrail) -> None:
    rules = handrail.write(".handrail/rules.toml", RULE)
    Trust(handrail.config / "trust.json").grant(rules, digest(rules.read_bytes()))

    assert told(handrail) == "closed"
    assert told(handrail, 'hosts=["a.example"]') == (
        "handrail: Not run: approval is needed, and there is no terminal. Allow this command, and "
        f"let it reach a.example? `{LINE}` (no rule lets commands reach a.example)"
    )
