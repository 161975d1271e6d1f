"""A custom hook: a spending limit for each user.

`before` reserves the amount of a call, or refuses the call. `after` releases the amount if the call
failed. Calls can run in parallel: without the reservation, two of them could pass the same limit.

Run it with `python examples/custom_hook.py`.
"""

from collections import defaultdict

import anyio

from handrail import (
    Call,
    CheckedCall,
    Executor,
    FailureKind,
    Hook,
    Result,
    ToolFailed,
    Toolset,
    tool,
)


def spending_limit(euros: int) -> Hook:
    """Let each user spend this much, counted over the argument `euros` of all tools."""
    spent: defaultdict[str | None, int] = defaultdict(int)
    reserved: dict[str, int] = {}

    def before(call: CheckedCall) -> CheckedCall | Result:
        user, amount = call.turn.principal, int(call.args.get("euros", 0))
        left = euros - spent[user]
        if amount > left:
            return call.refuse(f"Not run: only {left} euros are left to spend. Tell the user.")
        spent[user] += amount
        reserved[call.key] = amount
        return call

    def after(call: CheckedCall | Call, result: Result) -> Result:
        if isinstance(call, CheckedCall):  # not one with an unknown tool or wrong arguments
            amount = reserved.pop(call.key, 0)
            if result.failure and result.failure.kind is not FailureKind.UNKNOWN:
                spent[call.turn.principal] -= amount
        return result

    return Hook(before=before, after=after)


@tool
async def buy(item: str, euros: int) -> str:
    """Buy an item."""
    if item == "tea":
        raise ToolFailed("Tea is sold out.")
    return f"Bought {item} for {euros} euros."


PURCHASES = [
    ("ada", "rails", 60),
    ("ada", "tea", 30),
    ("ada", "posts", 50),
    ("ada", "nails", 40),
    ("bob", "posts", 50),
]


async def main() -> None:
    async with Executor(Toolset(buy), hooks=[spending_limit(100)]) as executor:
        for user, item, euros in PURCHASES:
            turn = executor.turn(principal=user)
            result = await turn.run(Call("buy", {"item": item, "euros": euros}))
            print(f"{user}: {result.text}")


anyio.run(main)

# output:
# ada: Bought rails for 60 euros.
# ada: Tea is sold out.
# ada: Not run: only 40 euros are left to spend. Tell the user.
# ada: Bought nails for 40 euros.
# bob: Bought posts for 50 euros.
