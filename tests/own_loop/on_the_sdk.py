"""The same support agent on the OpenAI SDK and pydantic alone: what its author has to write."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from pydantic import BaseModel, ConfigDict, ValidationError

from own_loop.shop import Shop


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Orders(Strict):
    """List the orders of a customer."""

    customer: str


class Status(Strict):
    """Say where an order is."""

    order: str


class ExportHistory(Strict):
    """Export the history of a customer."""

    customer: str


class Refund(Strict):
    """Refund an order."""

    order: str
    euros: float


class Cancel(Strict):
    """Cancel an order."""

    order: str


class Note(Strict):
    """Write a note about the customer."""

    text: str


async def orders(shop: Shop, args: Orders) -> list[str]:
    return shop.orders(args.customer)


async def status(shop: Shop, args: Status) -> str:
    return shop.status(args.order)


async def export_history(shop: Shop, args: ExportHistory) -> str:
    return await shop.export(args.customer)


async def refund(shop: Shop, args: Refund) -> str:
    return shop.refund(args.order, args.euros)


async def cancel(shop: Shop, args: Cancel) -> str:
    return shop.cancel(args.order)


async def note(shop: Shop, args: Note) -> str:
    return shop.note(args.text)


TOOLS: dict[str, tuple[type[Strict], Callable[..., Awaitable[object]], float]] = {
    "orders": (Orders, orders, 120.0),
    "status": (Status, status, 120.0),
    "export_history": (ExportHistory, export_history, 1.0),
    "refund": (Refund, refund, 120.0),
    "cancel": (Cancel, cancel, 120.0),
    "note": (Note, note, 120.0),
}


def describe_tools() -> list[Any]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": model.__doc__,
                "parameters": model.model_json_schema(),
            },
        }
        for name, (model, _, _) in TOOLS.items()
    ]


def parse(call: dict[str, Any]) -> Strict | str:
    """Return the arguments of a call, or what is wrong with it."""
    name = call["function"]["name"]
    if name not in TOOLS:
        return f"Not run: there is no tool {name!r}. Tools: {', '.join(TOOLS)}."
    try:
        return TOOLS[name][0].model_validate_json(call["function"]["arguments"])
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return f"Not run: the arguments are invalid. {'; '.join(problems)}"


def find_question(args: Strict | str) -> str:
    if isinstance(args, Refund) and args.euros > 100:
        return f"Refund {args.euros:g} euros?"
    return ""


async def run(shop: Shop, name: str, args: Strict | str) -> str:
    if isinstance(args, str):
        return args
    _, function, timeout = TOOLS[name]
    try:
        async with asyncio.timeout(timeout):
            result = await function(shop, args)
    except TimeoutError:
        return f"The tool took more than {timeout:g} seconds."
    except Exception as error:  # noqa: BLE001  the loop must go on
        return f"The tool failed: {error}"
    return result if isinstance(result, str) else json.dumps(result)


def claim(folder: Path, call_id: str) -> bool:
    """Use up an approval. Returns False if it was used before."""
    (folder / "used").mkdir(exist_ok=True)
    try:
        (folder / "used" / call_id).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


async def read_stream(stream: Any, show: Callable[[str], object]) -> dict[str, Any]:
    """Show the text of a reply, and return its message."""
    text, calls = "", dict[int, dict[str, Any]]()
    async for chunk in stream:
        for choice in chunk.choices:
            if choice.delta.content:
                text += choice.delta.content
                show(choice.delta.content)
            for piece in choice.delta.tool_calls or []:
                one = calls.setdefault(
                    piece.index,
                    {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
                )
                one["id"] += piece.id or ""
                if piece.function is not None:
                    one["function"]["name"] += piece.function.name or ""
                    one["function"]["arguments"] += piece.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    return message | ({"tool_calls": list(calls.values())} if calls else {})


async def run_calls(shop: Shop, calls: list[Any]) -> tuple[dict[str, str], dict[str, str]]:
    """Run the calls that need no approval. Returns their results, and the questions."""
    parsed = {call["id"]: parse(call) for call in calls}
    questions = {name: said for name, args in parsed.items() if (said := find_question(args))}
    ready = [call for call in calls if call["id"] not in questions]
    ran = await asyncio.gather(
        *[run(shop, call["function"]["name"], parsed[call["id"]]) for call in ready]
    )
    return dict(zip([call["id"] for call in ready], ran, strict=True)), questions


async def answer(
    shop: Shop, folder: Path, calls: list[Any], answers: Mapping[str, bool]
) -> dict[str, str]:
    """Run the approved calls. Returns a result for each answer."""
    results: dict[str, str] = {}
    for call in calls:
        if call["id"] not in answers:
            continue
        if not answers[call["id"]]:
            results[call["id"]] = "Not run: the user denied this call."
        elif claim(folder, call["id"]):
            results[call["id"]] = await run(shop, call["function"]["name"], parse(call))
        else:
            results[call["id"]] = "Not run: this approval was already used."
    return results


async def talk(
    client: AsyncOpenAI,
    shop: Shop,
    folder: Path,
    *,
    prompt: str = "",
    answers: Mapping[str, bool] = {},
    show: Callable[[str], object] = print,
) -> dict[str, str]:
    """Continue a conversation until the model has answered, or a person must."""
    file = folder / "state"
    saved: dict[str, Any] = {"messages": [], "done": {}, "questions": {}}
    if file.exists():
        saved = json.loads(file.read_text(encoding="utf-8"))
    messages, done, questions = saved["messages"], saved["done"], saved["questions"]
    if prompt:
        messages.append({"role": "user", "content": prompt})
    while True:
        calls = messages[-1].get("tool_calls", [])
        done |= await answer(shop, folder, calls, answers)
        questions = {name: said for name, said in questions.items() if name not in done}
        if questions:
            break
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": done[call["id"]]}
            for call in calls
        ]
        body: Any = {"messages": messages, "tools": describe_tools()}
        stream = await client.chat.completions.create(model="NAME", stream=True, **body)
        messages.append(await read_stream(stream, show))
        calls = messages[-1].get("tool_calls", [])
        if not calls:
            done, questions = {}, {}
            break
        done, questions = await run_calls(shop, calls)
        answers = {}
    state = {"messages": messages, "done": done, "questions": questions}
    file.write_text(json.dumps(state), encoding="utf-8")
    return questions
