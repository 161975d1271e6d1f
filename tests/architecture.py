"""The folders of the package and who imports whom, read from the source.

`python tests/architecture.py` prints the graph: each folder with the number of its modules, the
folders it imports, and whether anything leads upward or round in a circle.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Graph = dict[str, set[str]]

CORE = (  # by folder, so that a new file needs no entry: decision 037
    {"_support"},
    {"_labels"},
    {"_values"},
    {"events", "_schedule", "_schema", "_search"},
    {"_definition"},
    {"_collection"},
    {"messages"},
    {"_sources"},
    {"_turn"},
    {"_permissions"},
    {"_catalogue"},
    {"_execution"},
    {"permissions", "sources"},
)
"""The folders and public modules below the front door. Each imports lower ones, and itself."""
EDGES: Mapping[str, set[str]] = {
    "adapters": {"approvals", "providers"},
    "agent": {"approvals", "models"},
    "approvals": set(),
    "cli": {
        "agent",
        "approvals",
        "coding",
        "console",
        "hooks",
        "mcp",
        "models",
        "net",
        "policy",
        "providers",
        "runs",
        "sandbox",
        "shared",
        "telemetry",
        "tools",
    },
    "credentials": {"net"},
    "console": {"approvals", "net", "policy", "runs"},
    "coding": {"agent", "models", "policy", "programs", "sandbox", "tools"},
    "hooks": {"net", "sandbox"},
    "mcp": {"approvals", "credentials", "net", "policy", "sandbox"},
    "models": {"net", "providers"},
    "net": set(),
    "openapi": {"net", "telemetry"},
    "policy": {"approvals"},
    "programs": set(),
    "providers": set(),
    "runs": {"agent", "approvals", "models", "telemetry"},
    "sandbox": {"net"},
    "shared": {"agent", "approvals", "models", "policy", "runs"},
    "telemetry": {"agent", "models"},
    "testing": {"models"},
    "tools": {"net", "sandbox"},
    "web": {"agent", "approvals", "net", "runs"},
}
"""The packages above the front door, and the other edges that each may import."""
INSIDE: Mapping[str, tuple[set[str], ...]] = {
    "adapters": ({"_calls", "_sources"},),
    "agent": ({"_skills", "_history"}, {"_loop"}),
    "approvals": ({"_review"},),
    "cli": (
        {"_base"},
        {"_project", "_screen"},
        {"_input", "_runs"},
        {"_rules"},
        {"_trust"},
        {"_chat", "_doctor", "_setup"},
        {"_acp"},
        {"commands"},
    ),
    "mcp": ({"_login", "_questions"}, {"_calls"}, {"_client", "_server"}, {"_config", "_gateway"}),
    "policy": (
        {"_shell"},
        {"_code", "_rules"},
        {"_consequences"},
        {"_decisions"},
        {"_stores", "importers"},
    ),
    "providers": ({"_schema", "_formats"}, {"_streams"}),
    "runs": (
        {"_sealing"},
        {"_store"},
        {"_reading"},
        {"_live"},
        {"_engine"},
        {"_durable"},
        {"_serving"},
    ),
    "sandbox": ({"_kernel"}, {"_process"}, {"_bubblewrap"}),
    "tools": ({"_notebook"}, {"_files"}, {"_edit", "_search", "_trees", "_web"}, {"_shell"}),
    "web": ({"_protocols"},),
}
"""The folders inside an edge, from the lowest to the highest."""


@cache
def read_modules(package: Path) -> dict[str, ast.Module]:
    """Parse every module of the package, by its dotted name below the package."""
    trees = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


@cache
def statements(tree: ast.Module) -> list[ast.stmt]:
    """Every statement, also inside others. A small part of all nodes."""
    found: list[ast.stmt] = []
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        for value in vars(node).values():
            if type(value) is list and value and not isinstance(value[0], ast.expr):
                waiting += [one for one in value if isinstance(one, ast.AST)]
        if isinstance(node, ast.stmt):
            found.append(node)
    return found


@cache
def imported_names(tree: ast.Module) -> frozenset[str]:
    """Every import, wherever it stands: at the top, under TYPE_CHECKING, inside a function."""
    names: set[str] = set()
    for node in statements(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def module_graph(trees: Mapping[str, ast.Module], package: str = "handrail") -> Graph:
    """Which modules each module imports."""
    graph: Graph = {name: set() for name in trees}
    for name, tree in trees.items():
        for target in imported_names(tree):
            root, _, below = target.partition(".")
            while root == package and below not in trees:
                below = below.rpartition(".")[0]
            if root == package and below != name:
                graph[name].add(below)
    return graph


def folder_graph(modules: Graph, packages: set[str]) -> Graph:
    """Which folders each folder imports; a module at the root or in an edge stands for itself."""

    def room(name: str) -> str:
        folder = name.rpartition(".")[0]
        private = "_" in {part[:1] for part in folder.split(".")} or folder.count(".") > 0
        if name in packages or not (private or folder == "cli.commands"):
            return name
        return folder

    graph: Graph = {}
    for name, targets in modules.items():
        arrows = graph.setdefault(room(name), set())
        arrows |= {room(target) for target in targets} - {room(name)}
    return graph


def find_cycles(graph: Graph) -> list[str]:
    """Return the names that can reach themselves."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(graph[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += graph.get(name, ())
        return seen

    return sorted(name for name in graph if name in reach(name))


def find_upward(modules: Graph) -> list[str]:
    """Return the imports that lead from a lower layer to a higher one, or past the front door."""
    return sorted(
        f"{name} -> {target}"
        for name, targets in modules.items()
        for target in targets
        if not _may_import(name, target)
    )


def _may_import(name: str, target: str) -> bool:
    top, target_top = name.split(".", maxsplit=1)[0], target.split(".", maxsplit=1)[0]
    if ENTRY in {name, target}:
        return target == COMMAND_LINE
    if top in EDGES:
        if target_top == top:
            return _may_import_inside(INSIDE.get(top, ()), name, target)
        if target_top in EDGES:
            private = any(part.startswith("_") for part in target.split("."))
            return target_top in EDGES[top] and not private
        return target in FRONT_DOOR or target_top == "_support"
    if target_top in EDGES or name in FRONT_DOOR[:1] or target in FRONT_DOOR[:1]:
        return name in FRONT_DOOR[:1]
    return top == target_top or _level(CORE, target_top) < _level(CORE, top)


MAX_PACKAGE_LINES: Mapping[str, int] = {
    "core": 21_550,
    "adapters": 2_500,
    "agent": 5_850,
    "approvals": 3_250,
    "cli": 20_450,
    "credentials": 1_050,
    "console": 2_600,
    "coding": 650,
    "hooks": 1_300,
    "mcp": 7_000,
    "models": 2_600,
    "net": 1_800,
    "openapi": 1_850,
    "policy": 12_600,
    "programs": 2_000,
    "providers": 5_900,
    "runs": 13_650,
    "sandbox": 4_200,
    "shared": 1_200,
    "telemetry": 900,
    "testing": 400,
    "tools": 11_350,
    "web": 3_050,
}
"""Lines of each edge package, and of the rest. A number falls with its package. Who raises one says why in the commit."""
MAX_SLACK = 300
"""Lines by which a package may be below its number."""
ENTRY, COMMAND_LINE = "__main__", "cli._main"
"""`python -m handrail` starts the command line. Nothing imports it."""
FRONT_DOOR = ("", "events", "permissions", "messages", "sources", "_version")
"""What an edge may import: `handrail` itself, and its public modules."""


def _may_import_inside(layers: tuple[set[str], ...], name: str, target: str) -> bool:
    """Folders go one way; the modules beside them are held by the rule against cycles."""
    folder, target_folder = (_part(path, 1) for path in (name, target))
    listed: set[str] = set().union(*layers)
    if folder == target_folder or not {folder, target_folder} <= listed:
        return True
    return _level(layers, target_folder) < _level(layers, folder)


def _part(name: str, index: int) -> str:
    parts = name.split(".")
    return parts[index] if len(parts) > index else ""


def _level(layers: tuple[set[str], ...], name: str) -> int:
    [level] = [level for level, names in enumerate(layers) if name in names]
    return level


def find_packages(package: Path) -> set[str]:
    """Return the folders that have an ``__init__.py``, as dotted names."""
    paths = (path.parent.relative_to(package) for path in package.rglob("__init__.py"))
    return {".".join(path.parts) for path in paths}


def count_files(package: Path) -> dict[str, int]:
    """Return how many modules each folder has, its ``__init__`` left out."""
    folders = {path.parent for path in package.rglob("*.py")}
    return {
        ".".join(folder.relative_to(package).parts) or "handrail": sum(
            path.stem != "__init__" for path in folder.glob("*.py")
        )
        for folder in sorted(folders)
    }


def count_lines(package: Path) -> dict[str, int]:
    """Return how many lines each edge package has, and all the rest as ``core``."""
    lines = dict.fromkeys(("core", *EDGES), 0)
    for path in package.rglob("*.py"):
        top = path.relative_to(package).parts[0]
        lines[top if top in EDGES else "core"] += path.read_bytes().count(b"\n")
    return lines


def outgrown(lines: Mapping[str, int]) -> list[str]:
    """Return what to do about each package whose lines do not fit its number."""
    found = []
    for name, count in lines.items():
        most = MAX_PACKAGE_LINES.get(name, 0)
        if count > most:
            found.append(
                f"{name}: {count:,} lines, at most {most:,}. Delete some, or raise its number and say why"
            )
        elif count < most - MAX_SLACK:
            found.append(
                f"{name}: {count:,} lines. Lower its number from {most:,}, so that they do not grow back"
            )
    return found


def describe(package: Path) -> Iterator[str]:
    """Print the folder graph and the lines of each package, line by line."""
    modules = module_graph(read_modules(package))
    folders = folder_graph(modules, find_packages(package))
    files = count_files(package)
    for name in sorted(folders):
        count = f" ({files[name]} modules)" if name in files else ""
        yield f"{name or 'handrail'}{count} -> {' '.join(sorted(target or 'handrail' for target in folders[name])) or 'nothing'}"
    yield f"cycles between modules: {find_cycles(modules) or 'none'}"
    yield f"cycles between folders: {find_cycles(folders) or 'none'}"
    yield f"upward: {find_upward(modules) or 'none'}"
    lines = count_lines(package)
    yield f"lines: {sum(lines.values()):,}"
    yield from (
        f"  {count:>6,} {name}" for name, count in sorted(lines.items(), key=lambda one: -one[1])
    )


if __name__ == "__main__":
    source = Path(__file__).parents[1] / "src" / "handrail"
    sys.stdout.write("\n".join(describe(source)) + "\n")
