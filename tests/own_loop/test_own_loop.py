"""The same job twice: your own loop with handrail, and on the SDK alone, which is longer."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path
from typing import Any

import pytest

from own_loop import on_the_sdk, with_handrail
from own_loop.shop import Script, Shop, call

WAYS = pytest.mark.parametrize("way", [with_handrail, on_the_sdk], ids=["handrail", "sdk"])
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # the SDK's


@WAYS
async def test_a_loop_streams_and_every_call_has_a_result(way: Any, tmp_path: Path) -> None:
    first = (
        call("c1", "orders", customer="ana"),
        call("c2", "refnd", order="ana-1"),
        call("c3", "refund", order="ana-1", euros="many"),
        call("c4", "export_history", customer="ana"),
        call("c5", "refund", order="ana-1", euros=50),
        call("c6", "note", text="ana called"),
    )
    script = Script(("Let me see.", first), ("Done.", ()), ("You are welcome.", ()))
    shop, shown = Shop(), list[str]()

    questions = await way.talk(script.client(), shop, tmp_path, prompt="Help.", show=shown.append)
    await way.talk(script.client(), shop, tmp_path, prompt="Thanks.", show=shown.append)

    results = dict(script.results(1))
    assert (questions, list(results)) == ({}, ["c1", "c2", "c3", "c4", "c5", "c6"])
    assert "ana-1" in results["c1"]
    assert ("refund" in results["c2"], "euros" in results["c3"]) == (True, True)
    assert "1" in results["c4"]
    assert (results["c5"], results["c6"]) == ("refunded 50 euros of ana-1", "noted")
    assert (shop.refunds, shop.notes) == ([("ana-1", 50)], ["ana called"])
    assert "".join(shown) == "Let me see.Done.You are welcome."
    assert len(script.requests[2]["messages"]) == 10


@WAYS
@pytest.mark.parametrize("yes", [True, False])
async def test_an_approval_comes_later_and_works_once(
    way: Any, tmp_path: Path, *, yes: bool
) -> None:
    calls = (call("c1", "refund", order="a", euros=20), call("c2", "refund", order="b", euros=500))
    script = Script(("Sure.", calls), ("Done.", ()), ("Done.", ()))
    shop, shown = Shop(), list[str]()
    folder, copy = tmp_path / "one", tmp_path / "copy"
    folder.mkdir()

    [(name, question)] = (
        await way.talk(script.client(), shop, folder, prompt="Go.", show=shown.append)
    ).items()
    before = list(shop.refunds)
    shutil.copy(folder / "state", copy)
    done = await way.talk(script.client(), shop, folder, answers={name: yes}, show=shown.append)
    shutil.copy(copy, folder / "state")
    await way.talk(script.client(), shop, folder, answers={name: yes}, show=shown.append)

    first, second = (dict(script.results(number)) for number in (1, 2))
    assert (question, before, done) == ("Refund 500 euros?", [("a", 20)], {})
    assert shop.refunds == ([("a", 20), ("b", 500)] if yes else [("a", 20)])
    assert first["c1"] == second["c1"] == "refunded 20 euros of a"
    assert ("denied" in first["c2"]) is not yes
    assert "Not run" in second["c2"]


def count_statements(module: Any) -> int:
    """Count the statements of a module without docstrings."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return sum(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in statements
    )


def test_the_loop_with_handrail_is_shorter() -> None:
    with_it, without = count_statements(with_handrail), count_statements(on_the_sdk)

    assert (with_it <= 80, with_it < without) == (True, True), (with_it, without)
