"""Tools of other frameworks under handrail's rules, with plain functions in the place of one."""

from __future__ import annotations

from typing import Any

import pytest

from handrail import DESTROY, READ, WRITE, Call, Context, Executor, Toolset
from handrail.adapters._sources import Foreign, adopt_tools, find_effect


class Sorry(Exception):
    """What a framework raises for the model to read."""


def make(name: str = "work") -> Foreign:
    async def send(args: dict[str, Any], context: Context[Any]) -> str:
        if args["number"] == 1:
            raise Sorry("Try 7.")
        if args["number"] == 2:
            raise OSError("cannot open /srv/secret")
        return f"{context.call_id} {args['number']}"

    schema = {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
    }
    return Foreign(name, "Work.", schema, send, (Sorry,))


@pytest.mark.parametrize(
    ("name", "effect"),
    [("get_price", READ), ("get_all", WRITE), ("set_price", WRITE), ("drop", DESTROY)],
)
def test_a_tool_that_no_one_has_named_can_do_the_worst(name: str, effect: object) -> None:
    effects = {"set_*": WRITE, "get_*": READ, "get_all": WRITE}

    assert find_effect(name, effects) == effect


@pytest.mark.anyio
async def test_their_failures_are_failures_and_other_exceptions_do_not_leak() -> None:
    executor = Executor(Toolset(*adopt_tools([make()], {"work": READ}, "other")))
    results = [await executor.run(Call("work", {"number": one}, "c1")) for one in (7, 1, 2, "x")]
    failures = [one.failure and one.failure.kind.value for one in results]

    assert failures == [None, "failed", "bug", "bad_args"]
    assert [one.text for one in results[:2]] == ["c1 7", "Try 7."]
    assert "secret" not in results[2].text
    assert executor.tools.specs[0].effect == READ
