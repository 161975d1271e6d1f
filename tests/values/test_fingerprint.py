"""What an approval is tied to: any change of the tool's spec gives another fingerprint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest

from handrail import (
    READ,
    Access,
    Approvals,
    Ask,
    Call,
    CheckedCall,
    Decision,
    Executor,
    Exposure,
    Retry,
    Spec,
    Tool,
    Toolset,
)
from handrail.approvals import defer

SPEC = Spec(
    name="save",
    description="Save a file.",
    input_schema={"type": "object", "properties": {"path": {"type": "string"}}},
    tags=frozenset({"files", "disk"}),
    metadata={"team": "books", "cost": {"euro": 1, "cent": 0.5}},
)


def digest(spec: Spec = SPEC, resource: str = "file:a", circumstances: str = "1") -> str:
    """The fingerprint of a call that an executor would ask about."""

    def send(args: dict[str, Any], context: Any) -> str:
        raise AssertionError("nobody has said yes")

    tool = Tool.remote(spec, send, touches=lambda **_: Access("read", resource))
    approvals = Approvals(approver=defer, context=lambda _: circumstances)

    async def ask() -> str:
        async with Executor(Toolset(tool), policy=asks, approvals=approvals) as executor:
            result = await executor.run(Call(spec.name, '{"path":"a"}', "c1"))
        assert result.pending is not None
        return result.pending.fingerprint

    return anyio.run(ask)


def asks(_call: CheckedCall) -> Decision:
    return Ask("?")


CHANGES: list[dict[str, Any]] = [
    {"name": "put"},
    {"description": "Put a file."},
    {"input_schema": {"type": "object"}},
    {"output_schema": {"type": "string"}},
    {"effect": READ},
    {"exposure": Exposure.DEFERRED},
    {"aliases": ("put",)},
    {"idempotent": True},
    {"timeout": 1.0},
    {"effect": READ, "retry": Retry()},
    {"max_chars": 10},
    {"search_hint": "disk"},
    {"instead_of": {"cat": "read a file"}},
    {"examples": ({"path": "a"},)},
    {"strict": "on"},
    {"tags": frozenset({"files"})},
    {"needs_approval": True},
    {"exclusive": True},
    {"background": True},
    {"private": True},
    {"framed": True},
    {"metadata": {}},
    {"metadata": {"team": "books", "cost": {"euro": 1, "cent": "0.5"}}},
    {"metadata": {"team": "books", "cost": {"euro": True, "cent": 0.5}}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_any_change_of_a_spec_gives_another_fingerprint(change: dict[str, Any]) -> None:
    assert digest(replace(SPEC, **change)) != digest()


def test_every_field_of_a_spec_is_among_the_changes() -> None:
    assert {name for change in CHANGES for name in change} == set(Spec.__dataclass_fields__)


def test_the_order_of_keys_does_not_matter() -> None:
    turned = {"cost": {"cent": 0.5, "euro": 1}, "team": "books"}

    assert digest(replace(SPEC, metadata=turned)) == digest()


def test_what_a_call_touches_and_its_circumstances_matter() -> None:
    assert len({digest(), digest(resource="file:b"), digest(circumstances="2")}) == 3
