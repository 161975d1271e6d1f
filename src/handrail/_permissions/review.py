"""Review: which requests a second model may answer, and what they say about their call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handrail._permissions.checked_call import CheckedCall, shown_sources
from handrail._values.decision import ANYONE, Ask

if TYPE_CHECKING:
    from handrail._sources.heard import Heard  # which few runs need

MAX_SAID_CHARS = 8_000
"""How much of what people wrote goes into a request. The newest words are kept."""


def describe_ask(checked: CheckedCall, ask: Ask | None) -> dict[str, Any]:
    """Return the fields of a request that depend on the policy's question, if there is one."""
    if ask is None:
        return {"question": ""}
    fields: dict[str, Any] = {
        "question": ask.question,
        "once": ask.once,
        "parts": ask.parts,
        "approvers": ask.approvers,
        "sources": shown_sources(checked, in_workspace=ask.in_workspace),
    }
    if may_review(checked, ask):
        fields |= {"review": True, "said": read_words(checked.turn.options.heard)}
    return fields


def may_review(checked: CheckedCall, ask: Ask) -> bool:
    """Return whether a second model may allow a call.

    It may not if the approval is for one call only, or limited to some approvers. Nor if the tool
    always needs approval, or a value in the call is not from a person or your own systems.
    """
    is_open = ask.review and type(ask) is Ask and not ask.once and ask.approvers == ANYONE
    if not is_open or checked.spec.needs_approval or checked.asks_person:
        return False
    # a stranger may have chosen the others: decision 157
    return all(one.is_known for one in checked.find_sources(in_workspace=ask.in_workspace))


def read_words(heard: Heard | None) -> tuple[str, ...]:
    """Return what people wrote in a run, newest last, shortened."""
    if heard is None:
        return ()
    heard.catch_up()
    kept: list[str] = []
    left = MAX_SAID_CHARS
    for text in reversed([text for one in heard.around for text in one.words]):
        if left <= 0:
            break
        kept.append(text[:left])
        left -= len(text)
    return tuple(reversed(kept))
