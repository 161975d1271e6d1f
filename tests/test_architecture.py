"""The layers, read from the source: who may import whom, and who knows which package."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import handrail

PACKAGE = Path(handrail.__file__).parent

WORDS = """
    _door _version _errors _effect _names _content _json _access _spec _call _context _decision _pending
    _result _message _event
"""
DEFINITION = """
    _compact _pairs _core _schema _complaint _mend _arguments _remote _signature _docstring
    _tool _function _define
"""
COLLECTION = "_toolset _registry _lint"
JUDGEMENT = "_policy _hook _retry _model"
STAGES = """
    _loop _store _output _reader _feed _preflight _schedule _hooked _invoke _lane
"""
CONDUCTOR = "_batch _desk _questions _glider _traffic _explanation _executor"
DOORS_OUT = "events judgement messages"
LAYERS = [WORDS, DEFINITION, COLLECTION, JUDGEMENT, STAGES, CONDUCTOR, DOORS_OUT]
EDGES = {
    "agent",
    "approvals",
    "cli",
    "hooks",
    "models",
    "net",
    "policy",
    "providers",
    "sandbox",
    "testing",
    "tools",
}
ARROWS = {
    "agent": {"approvals"},
    "cli": EDGES,
    "models": {"providers"},
    "policy": {"approvals"},
    "sandbox": {"net"},
    "tools": {"net", "sandbox"},
}
"""Which edge may know which other."""
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names.split()}

DOORS = {
    "anyio": {"_batch", "_executor", "_feed", "_invoke", "_loop", "_questions", "_traffic"},
    "asyncio": {"_loop"},
    "griffe": {"_docstring"},
    "pydantic": {"_schema"},
    "pydantic_core": {"_schema"},
    "typing_extensions": {"_define"},
}

MAX_LINES = 400
MAX_BODY = 40
LONGER = {"_executor.run": 56, "_grep.grep": 56}
"""Where a call passes so often that a function of its own would cost more than it explains; and
where a tool has so many arguments, one on a line."""


def modules() -> dict[str, ast.Module]:
    return {
        path.stem: ast.parse(path.read_text(encoding="utf-8"))
        for path in PACKAGE.glob("*.py")
        if path.stem != "__init__"
    }


def imported(tree: ast.Module) -> set[str]:
    """Every import, wherever it stands: at the top, under TYPE_CHECKING, inside a function."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own(names: set[str]) -> set[str]:
    return {part for name in names if name.startswith("handrail.") for part in [name.split(".")[1]]}


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """The names that can reach themselves."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        todo = list(graph[start])
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += graph.get(name, ())
        return found

    return sorted(name for name in graph if name in reached(name))


def upward(graph: dict[str, set[str]], layer_of: dict[str, int]) -> list[str]:
    """The imports that lead from a lower layer to a higher one."""
    return sorted(
        f"{name} -> {other}"
        for name, others in graph.items()
        for other in others
        if layer_of[other] > layer_of[name]
    )


def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: own(imported(tree)) & known.keys() for name, tree in known.items()}


def test_every_module_has_a_layer() -> None:
    assert modules().keys() == LAYER_OF.keys()


def test_a_module_imports_its_own_layer_or_a_lower_one() -> None:
    assert upward(graph(), LAYER_OF) == []


def test_no_module_reaches_itself() -> None:
    assert cycles(graph()) == []


def test_the_checks_above_can_fail() -> None:
    assert cycles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == ["a", "b"]
    assert upward({"low": {"high"}, "high": {"low"}}, {"low": 0, "high": 1}) == ["low -> high"]


def test_the_words_need_the_standard_library_only() -> None:
    trees = modules()
    for name in LAYERS[0].split():
        assert {top for n in imported(trees[name]) if (top := n.split(".")[0]) in DOORS} == set()


@pytest.mark.parametrize("package", sorted(DOORS))
def test_each_package_has_its_doors_and_no_others(package: str) -> None:
    knows = {
        name
        for name, tree in modules().items()
        if any(one.split(".")[0] == package for one in imported(tree))
    }

    assert knows == DOORS[package]


@pytest.mark.parametrize("edge", sorted(EDGES))
def test_an_edge_comes_in_through_the_front_door(edge: str) -> None:
    used = {
        name
        for path in (PACKAGE / edge).glob("*.py")
        for name in imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("handrail.")
    }

    used -= {"handrail._door", "handrail._door.door"}  # what doors are made of
    assert {name for name in used if name.split(".")[1].startswith("_")} == set()
    assert {name.split(".")[1] for name in used} - set(handrail.__all__) <= {
        edge,
        *DOORS_OUT.split(),
        *ARROWS.get(edge, ()),
    }
    assert {
        name
        for name in used
        if name.split(".")[1] in EDGES - {edge} and name.split(".")[-1].startswith("_")
    } == set()


def test_every_package_is_a_known_edge() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == EDGES


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body, those left out that a model reads."""
    told = sum(
        len((ast.get_docstring(one, clean=False) or "").splitlines())
        for one in ast.walk(node)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return (node.body[-1].end_lineno or 0) - node.body[0].lineno + 1 - told


def test_modules_and_functions_stay_within_their_budgets() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    long = {
        path.name: lines
        for path, text in sources.items()
        if (lines := len(text.splitlines())) > MAX_LINES
    }
    wide = {
        f"{name}.{node.name}": lines
        for path, text in sources.items()
        for name in [path.stem]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := length(node)) > LONGER.get(f"{name}.{node.name}", MAX_BODY)
    }

    assert (long, wide) == ({}, {})
