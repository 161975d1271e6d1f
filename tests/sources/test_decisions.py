"""Decisions are remembered only for calls that name nothing: others depend on who named what."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from handrail import READ, Access, Call, Deny, Executor, Toolset, tool
from handrail.permissions import Pending
from handrail.policy import Rulebook

pytestmark = pytest.mark.anyio
ALLOWED = "[[rule]]\ndecide = 'allow'\ntools = ['open_page', 'look']\n"
PAGE = "https://shop.example/a"


@tool(effect=READ, touches=lambda url, **_: Access(READ, f"url:{url}"))
async def open_page(url: str) -> str:
    """Open a page."""
    return url


@tool(effect=READ)
async def look(what: str) -> str:
    """Look at something."""
    return what


async def find_asked(rules: Rulebook, calls: Sequence[tuple[str, Call]]) -> list[int]:
    """Return which calls need approval, each in a run of its own in which someone says a text."""
    asked: list[int] = []

    async def decline(pending: Pending) -> Deny:
        asked.append(int(pending.call.id))
        return Deny.by_user()

    async with Executor(Toolset(open_page, look), policy=rules, approvals=decline) as executor:
        for said, call in calls:
            await executor.run(call, turn=executor.turn(said=[said]))
    return asked


async def test_the_same_access_is_decided_by_who_named_it_each_time() -> None:
    words = ["Hello.", f"Open {PAGE}.", "Hello.", f"Read {PAGE}."]
    calls = [(said, Call("open_page", {"url": PAGE}, f"{n}")) for n, said in enumerate(words)]

    assert await find_asked(Rulebook(sources=True), calls) == [0, 2]
    assert await find_asked(Rulebook.from_toml(ALLOWED), calls) == []


@pytest.mark.parametrize(
    ("key", "asked"), [("after = ['read']", [2, 3]), ("source = 'none'", [1, 2, 3])]
)
async def test_a_rule_for_calls_without_a_name_is_asked_each_time(
    key: str, asked: list[int]
) -> None:
    rules = Rulebook.from_toml(f"[[rule]]\ndecide = 'ask'\ntools = 'look'\n{key}\n{ALLOWED}")
    found: list[int] = []

    async def decline(pending: Pending) -> Deny:
        found.append(int(pending.call.id))
        return Deny.by_user()

    async with Executor(Toolset(look), policy=rules, approvals=decline) as executor:
        for number in (1, 2, 3):
            turn = executor.turn(str(number), run="R", said=["Hello."])
            await executor.run(Call("look", {"what": "it"}, str(number)), turn=turn)
    assert found == asked
