"""48 attacks on the rules about sources, and two controls: what runs unasked, by set of rules."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import DESTROY, READ, WRITE, Access, Call, Deny, Executor, Tool, Toolset, tool
from handrail.permissions import Answer, Pending
from handrail.policy import Rulebook
from sources.adaptive_cases import ATTACKS, CONTROLS, Attack, Read
from sources.letters import touch_nothing

pytestmark = pytest.mark.anyio
STRICT = {
    "a stranger becomes a contact, labelled own",
    "pasted by the person",
    "a wrong amount",
    "a secret in a body",
    "a secret in an amount",
    "a secret in base64",
    "a link that is none",
    "general, in general",
    "a listed channel strangers read",
    "in the project's instructions",
}
"""What no lookup of names can see, or what the user or developer has named."""
RUNS: dict[Any, set[str]] = {
    "strict": STRICT,
    True: STRICT | {"a subdomain", "another path", "one of ten links"},
    "unattended": {
        "general, in general",
        "a listed channel strangers read",
        "a link that is none",
        "in the project's instructions",
    },
}


@tool(effect=WRITE, touches=lambda to, **_: Access(WRITE, f"email:{to}"))
async def send_mail(to: str, body: str) -> str:
    """Send a mail."""
    return f"{to} {body}"


@tool(effect=WRITE, touches=lambda iban, **_: Access(WRITE, f"iban:{iban}"), tags=["commits"])
async def pay(iban: str, amount: float) -> str:
    """Pay."""
    return f"{iban} {amount}"


@tool(effect=DESTROY, touches=lambda file_id, **_: Access(DESTROY, f"file:{file_id}"))
async def delete_file(file_id: str) -> str:
    """Delete a file."""
    return file_id


@tool(effect=DESTROY, touches=lambda **_: Access(DESTROY, "file:all"))
async def delete_all() -> str:
    """Delete everything."""
    return ""


@tool(effect=READ, touches=lambda url, **_: Access(READ, f"url:{url}"))
async def get_webpage(url: str) -> str:
    """Read a page."""
    return url


@tool(effect=WRITE, touches=lambda channel, **_: Access(WRITE, f"channel:{channel}"))
async def post(channel: str, body: str) -> str:
    """Post."""
    return channel + body


@tool(effect=WRITE, touches=lambda path, **_: Access(WRITE, f"file:{path}"))
async def write_note(path: str, text: str) -> str:
    """Write a note."""
    return path + text


TOOLS = (send_mail, pay, delete_file, delete_all, get_webpage, post, write_note)


def make_reader(number: int, one: Read) -> Tool[..., Any]:
    async def read() -> Any:
        return one.value

    def own(data: Any) -> list[str]:
        return [str(item) for item in data] if isinstance(data, list) else [str(data)]

    kind = {str: str, int: int}.get(type(one.value), list[str])
    read.__annotations__["return"] = kind
    made = {"effect": READ, "touches": touch_nothing, "private": True, "description": "Read."}
    return tool(name=f"read_{number}", **made, **({"own": own} if one.own else {}))(read)


async def is_asked(attack: Attack, rules: Any) -> bool:
    asked: list[Pending] = []

    async def decline(pending: Pending) -> Answer:
        asked.append(pending)
        return Deny("No.")

    readers = [make_reader(*one) for one in enumerate(attack.reads)]
    policy = Rulebook(sources=rules)
    executor = Executor(Toolset(*TOOLS, *readers), policy=policy, approvals=decline)
    async with executor:
        for number, reader in enumerate(readers):
            turn = executor.turn(str(number), run="R", said=attack.said)
            await executor.run(Call(reader.spec.name, {}, f"c{number}"), turn=turn)
        last = executor.turn("last", run="R")
        result = await executor.run(Call(attack.tool, attack.args, "z"), turn=last)
    assert bool(result.failure) is bool(asked)
    return bool(asked)


@pytest.mark.parametrize("rules", RUNS, ids=str)
async def test_no_other_attack_runs_unasked(rules: Any) -> None:
    ran = {attack.name for attack in ATTACKS if not await is_asked(attack, rules)}

    assert (len(ATTACKS), ran - RUNS[rules]) == (48, set())


@pytest.mark.parametrize("rules", [True, "strict"], ids=str)
async def test_what_the_person_named_is_not_asked_about(rules: Any) -> None:
    assert [await is_asked(one, rules) for one in CONTROLS] == [False, False]
