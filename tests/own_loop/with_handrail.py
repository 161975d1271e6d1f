"""A support agent with its own loop on the OpenAI SDK: handrail runs the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from handrail import (
    READ,
    WRITE,
    Access,
    Allow,
    Approvals,
    Ask,
    CheckedCall,
    Context,
    Decision,
    Deny,
    Executor,
    Toolset,
    tool,
)
from handrail.agent import RunState, dump_state, load_state
from handrail.approvals import FileLedger, defer
from handrail.messages import Delta, Message, Prompt, StreamItem, ToolResults
from handrail.providers import openai_chat
from own_loop.shop import Shop


@tool(effect=READ)
async def orders(customer: str, context: Context[Shop]) -> list[str]:
    """List the orders of a customer."""
    return context.deps.orders(customer)


@tool(effect=READ)
async def status(order: str, context: Context[Shop]) -> str:
    """Say where an order is."""
    return context.deps.status(order)


@tool(effect=READ, timeout=1.0)
async def export_history(customer: str, context: Context[Shop]) -> str:
    """Export the history of a customer."""
    return await context.deps.export(customer)


@tool(touches=lambda order, **_: Access(WRITE, f"order:{order}"))
async def refund(order: str, euros: float, context: Context[Shop]) -> str:
    """Refund an order."""
    return context.deps.refund(order, euros)


@tool(touches=lambda order, **_: Access(WRITE, f"order:{order}"))
async def cancel(order: str, context: Context[Shop]) -> str:
    """Cancel an order."""
    return context.deps.cancel(order)


@tool
async def note(text: str, context: Context[Shop]) -> str:
    """Write a note about the customer."""
    return context.deps.note(text)


def policy(call: CheckedCall) -> Decision:
    is_large = call.name == "refund" and call.args["euros"] > 100
    return Ask(f"Refund {call.args['euros']:g} euros?") if is_large else Allow()


def make_executor(folder: Path) -> Executor:
    tools = Toolset(orders, status, export_history, refund, cancel, note)
    approvals = Approvals(approver=defer, ledger=FileLedger(folder / "ledger"))
    return Executor(tools, policy=policy, approvals=approvals)


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

    def show_text(item: StreamItem) -> None:
        if isinstance(item, Delta):
            show(item.text)

    file = folder / "state"
    history: list[Message] = [Prompt.of(prompt)]
    if file.exists():
        history = [*load_state(file.read_text(encoding="utf-8")).messages, *history[not prompt :]]
    async with make_executor(folder) as executor:
        if isinstance(waiting := history[-1], ToolResults):
            given = {name: Allow() if yes else Deny.by_user() for name, yes in answers.items()}
            history[-1] = results = await executor.resume(waiting, given, deps=shop)
        else:
            results = ToolResults(())
        while not results.questions:
            tools = executor.refresh_tools()
            body: Any = openai_chat.encode_messages(history)
            body["tools"] = openai_chat.encode_tools(tools)
            stream = await client.chat.completions.create(model="NAME", stream=True, **body)
            chunks = (chunk.model_dump() async for chunk in stream)
            items = openai_chat.decode_stream(chunks, names=tools.api_names)
            turn = executor.turn(str(len(history)), run="support", deps=shop)
            results = await executor.run_reply(items, turn=turn, show=show_text)
            history += [turn.reply, results] if results.results else [turn.reply]
            if not results.results:
                break
    file.write_text(dump_state(RunState(tuple(history))), encoding="utf-8")
    return {pending.id: pending.question for pending in results.questions}
