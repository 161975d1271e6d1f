"""The one shape of all ready-made hooks."""

from __future__ import annotations

from handrail import Call, Kind, Result, Toolset
from handrail.hooks import (
    Hook,
    audit,
    budget,
    cache,
    circuit_breaker,
    gate,
    loop_guard,
    rate_limit,
    redact,
)


async def test_a_side_that_a_hook_does_not_need_passes_everything_on() -> None:
    call, result = Call("look", {}, "c1"), Result.fail("c1", Kind.FAILED, "no")

    assert await Hook().before(call) is call
    assert await Hook().after(call, result) is result


async def test_every_hook_can_be_given_with_both_sides() -> None:
    tools = Toolset()
    hooks = [
        gate(tools),
        budget(calls=1),
        rate_limit(1),
        loop_guard(),
        cache(tools),
        circuit_breaker(),
        redact(values=["secret"]),
        audit([].append),
    ]
    call, result = Call("look", {}, "c1"), Result("c1", "seen")

    for hook in hooks:
        assert await hook.before(call) == call
        assert await hook.after(call, result) == result
