"""Your own agent loop on the Anthropic SDK: parallel calls, and an approval in the loop.

handrail runs the calls and translates the API format; the loop and the client are yours. The HTTP
client of the SDK replays recorded responses here, so the program needs no key and no network.

Run it with `python examples/own_loop.py`. It needs `pip install anthropic`.
"""

from typing import Any

import anyio
from anthropic import AsyncAnthropic
from httpx2 import AsyncClient, MockTransport, Request, Response

from handrail import READ, WRITE, Allow, Executor, Toolset, tool
from handrail.approvals import defer
from handrail.messages import Message, Prompt
from handrail.policy import Rulebook
from handrail.providers import anthropic


@tool(effect=READ)
async def stock(item: str) -> int:
    """Return how many of an item are in the warehouse."""
    print("start:", item)
    await anyio.sleep(0.1)
    print("end:", item)
    return 0


@tool(effect=WRITE)
async def order(item: str, count: int) -> str:
    """Order an item."""
    return f"Ordered {count} {item}."


def use(call_id: str, name: str, **args: object) -> dict[str, object]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": args}


USAGE = {"input_tokens": 0, "output_tokens": 0}
MESSAGE = {"type": "message", "role": "assistant", "id": "m", "model": "NAME", "usage": USAGE}
RECORDED: list[list[dict[str, object]]] = [
    [use("c1", "stock", item="rails"), use("c2", "stock", item="posts")],
    [use("c3", "order", item="posts", count=3)],
    [{"type": "text", "text": "I ordered 3 posts."}],
]


def replay(_request: Request) -> Response:
    return Response(200, json={**MESSAGE, "content": RECORDED.pop(0)})


async def loop(client: Any, executor: Executor, prompt: str) -> str:
    history: list[Message] = [Prompt.of(prompt)]
    while True:
        tools = executor.refresh_tools()
        body = {"tools": anthropic.encode_tools(tools), **anthropic.encode_messages(history)}
        response = await client.messages.create(model="NAME", max_tokens=1024, **body)
        reply = anthropic.decode(response.model_dump(), names=tools.api_names)
        results = await executor.run_reply(reply)
        if not results.results:
            return reply.text
        for pending in results.questions:
            print("approve:", pending.call.name, pending.call.args)
        answers = {pending.id: Allow() for pending in results.questions}  # ask a person here
        history += [reply, await executor.resume(results, answers)]


async def main() -> None:
    client = AsyncAnthropic(api_key="-", http_client=AsyncClient(transport=MockTransport(replay)))
    async with Executor(Toolset(stock, order), policy=Rulebook(), approvals=defer) as executor:
        print(await loop(client, executor, "Order 3 posts if there are none."))


anyio.run(main)

# output:
# start: rails
# start: posts
# end: rails
# end: posts
# approve: order {"item":"posts","count":3}
# I ordered 3 posts.
