"""Lint: each rule finds its fault, and a good tool has none."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from handrail import READ, Finding, Spec, Tool, Toolset, lint, tool


async def _nowhere(_args: object, _context: object) -> None: ...


def far(name: str, schema: dict[str, Any], description: str = "Words.") -> Tool[..., object]:
    return Tool.remote(Spec(name=name, description=description, input_schema=schema), _nowhere)


@tool
def send_invoice(customer: str, amount: float) -> str:
    """Send an invoice to a customer.

    Args:
        customer: The customer's number.
        amount: What they owe, in euros.
    """
    return f"{customer} owes {amount}"


def test_a_good_tool_has_no_findings() -> None:
    assert lint(Toolset(send_invoice)) == ()


def test_missing_descriptions_are_found() -> None:
    @tool
    def send_mail(to: str) -> None: ...

    assert lint([send_mail]) == (
        Finding("send_mail", "no-description", "it has no description: write a docstring that says when to use it, and when not"),
        Finding("send_mail", "no-parameter-description", "parameter 'to' has no description: add it to the docstring's `Args:`"),
    )  # fmt: skip


def rules(one: Tool[..., object]) -> list[str]:
    return [finding.rule for finding in lint([one])]


def test_vague_names_are_found() -> None:
    for name in ("run", "tool_1", "processData", "do", "handle_data"):
        assert rules(far(name, {})) == ["vague-name"], name
    for name in ("run_tests", "get_user", "process_refund"):
        assert rules(far(name, {})) == [], name


def test_reads_that_do_not_say_what_they_read_are_found() -> None:
    @tool(effect=READ)
    def find_article(sku: Annotated[str, Field(description="Its number.")]) -> str:
        """Find an article."""
        return sku

    @tool(effect=READ, touches=lambda **_: ())
    def add_numbers(one: Annotated[int, Field(description="A number.")]) -> int:
        """Add one."""
        return one + 1

    assert lint([find_article, add_numbers]) == ()  # nothing writes
    assert lint([find_article, add_numbers, send_invoice]) == (
        Finding("find_article", "no-touches", "it only reads, but does not say what, so it waits for every call that writes: declare `touches`, or `touches=lambda **_: ()` if nothing can change what it returns"),
    )  # fmt: skip


def test_two_tools_in_one_are_found() -> None:
    assert rules(far("read_and_write", {})) == rules(far("readAndWrite", {})) == ["and-in-name"]
    assert rules(far("expand_band", {})) == []


def test_names_that_no_provider_takes_are_found() -> None:
    assert lint([far("fs.read", {})]) == (
        Finding("fs.read", "wire-name", "not every API accepts the name 'fs.read': models receive 'fs_u2e_read'"),
    )  # fmt: skip


def test_deep_schemas_are_found() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(6):
        schema = {"type": "object", "properties": {"x": {**schema, "description": "Deeper."}}}

    assert lint([far("dig_down", schema)]) == (
        Finding("dig_down", "schema-depth", "its arguments are nested 6 levels deep: use at most 5"),
    )  # fmt: skip


def test_dear_tools_are_found() -> None:
    assert lint([far("recite_poem", {}, "word " * 1_000)]) == (
        Finding("recite_poem", "token-cost", "it costs about 1256 tokens in every request: shorten it, or make it deferred"),
    )  # fmt: skip
