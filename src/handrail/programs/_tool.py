"""The tool for running programs, and which tools are functions in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from handrail import READ, Access, Context, Exposure, Result, Spec, Tool, Toolset, tool
from handrail.programs._prelude import write_prelude
from handrail.programs._program import Program, ProgramFunctions, ProgramLimits
from handrail.programs._report import DESCRIPTION
from handrail.programs._stubs import Function, Stubs, make_functions

AnyFunction = Tool[..., Any] | Callable[..., Any]
_FOREVER = float("inf")
_NO_LIMITS = ProgramLimits()
MAX_TOKENS = 4_000
"""The tokens of functions' definitions in a description."""
_CHARS_PER_TOKEN = 4
USE = "program"
"""The key in a spec's metadata: ``only`` for programs only, ``also`` for both, or ``never``."""
_FIND = "find_functions"
_MAX_FOUND = 20
_MAX_NAMES_CHARS = 2_600
"""Characters of names in the description: less than 1,000 tokens."""


def program_tool(
    functions: Toolset | Iterable[AnyFunction],
    *,
    name: str = "run_program",
    limits: ProgramLimits = _NO_LIMITS,
    over: int = MAX_TOKENS,
) -> Tool[..., Any]:
    """Return a tool running a Python program whose functions are these tools.

    Each call in a program is a call by the executor running the program, which must have these
    tools. It is checked, decided, approved, ordered and recorded like a model's call. If one needs
    approval later, the program waits, also in another process.

    Args:
        functions: The tools a program can call.
        name: The tool's name.
        limits: What one program can use.
        over: If the functions' definitions cost more tokens, programs search for them.
    """
    tools = functions if isinstance(functions, Toolset) else Toolset(*functions)
    specs = tools.specs
    shown = Stubs(make_functions(specs).values()).text
    own = [_make_search(tools)] if len(shown) > over * _CHARS_PER_TOKEN else []
    callable_ = make_functions([*specs, *[one.spec for one in own]])
    offer = ProgramFunctions(
        callable_,
        Stubs(callable_.values()).checked,
        write_prelude(callable_),
        limits,
        (*[spec.name for spec in specs], *own),
    )
    if own:
        shown = _describe_search(callable_, own[0].spec)
    effect = max([spec.effect for spec in specs], default=READ)

    @tool(
        name=name,
        description=DESCRIPTION + shown,
        effect=effect,
        touches=_touch_program,
        headline=_headline,
        exclusive=effect != READ,
        timeout=_FOREVER,
        private=any(spec.private for spec in specs),
        framed=any(spec.framed for spec in specs),
        replays=True,
    )
    async def run_program(code: str, context: Context) -> Any:
        """Run a program.

        Args:
            code: The program: Python, without a Markdown fence.
            context: The call's context.
        """
        result: Result = await Program(offer, code, context).run()
        return result

    return run_program


def with_programs(
    tools: Toolset | Iterable[AnyFunction],
    *,
    name: str = "run_program",
    limits: ProgramLimits = _NO_LIMITS,
    over: int = MAX_TOKENS,
) -> Toolset:
    """Return these tools with one for running programs.

    A tool says in its metadata how it is used: ``{"program": "only"}``, ``"also"`` or ``"never"``.
    By default, tools which only read and declare what they return can be called in programs too.
    """
    given = tools if isinstance(tools, Toolset) else Toolset(*tools)
    functions = [one for one in given if _find_use(one) in ("only", "also")]
    kept = [_hide(one) if _find_use(one) == "only" else one for one in given]
    return Toolset(*kept, program_tool(functions, name=name, limits=limits, over=over))


def _find_use(one: Tool[..., Any]) -> object:
    spec = one.spec
    is_plain = spec.effect == READ and spec.output_schema is not None
    return spec.metadata.get(USE, "also" if is_plain else "never")


def _hide(one: Tool[..., Any]) -> Tool[..., Any]:
    return replace(one, spec=replace(one.spec, exposure=Exposure.HIDDEN))


def _touch_program(code: str) -> Access:  # noqa: ARG001  as the tool's parameters
    return Access(READ, "program:")


def _headline(code: str) -> str:
    lines = code.strip().count("\n") + 1
    return f"Run a program of {lines} line{'s' * (lines != 1)}"


def _make_search(tools: Toolset) -> Tool[..., Any]:
    """Return the tool that searches these."""
    indexed = tools.map(_defer)
    functions = {one.spec.name: one for one in make_functions(tools.specs).values()}

    @tool(name=tools.free_name(_FIND), effect=READ, touches=lambda **_: ())
    def find_functions(query: str, limit: int = 5) -> str:
        """Find functions by what they do. Print the result.

        Args:
            query: A few words about what you need.
            limit: How many to return.
        """
        found = indexed.search(query, limit=max(1, min(limit, _MAX_FOUND)))
        if not found:
            return f"No function fits {query[:_MAX_QUOTED_CHARS]!r}. Use other words."
        return Stubs([functions[name] for name in found]).text

    return find_functions


_MAX_QUOTED_CHARS = 60


def _defer(one: Tool[..., Any]) -> Tool[..., Any]:
    return replace(one, spec=replace(one.spec, exposure=Exposure.DEFERRED))


def _describe_search(functions: Mapping[str, Function], search: Spec) -> str:
    """Return the model's text about functions it has to search for."""
    own = next(one for one in functions.values() if one.spec is search)
    names = [name for name, one in functions.items() if one is not own]
    shown, room = list[str](), _MAX_NAMES_CHARS
    for name in names:
        room -= len(name) + 2
        if room < 0:
            break
        shown.append(name)
    more = f" and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    how = _HOW.format(count=len(names), find=own.name)
    return f"{Stubs([own]).text}\n\n{how}\n{', '.join(shown)}{more}"


_HOW = (
    "It finds the {count} others, by what they do. Write a first program that prints what you "
    'need, and call these in the next one: `print(await {find}(query="..."))`. Their names:'
)
