"""Deferred tools for tests of the search."""

from __future__ import annotations

from typing import Any

from handrail import READ, WRITE, Context, Effect, Exposure, Json, Spec, Tool, Toolset, tool


def make_tool(
    name: str,
    description: str = "",
    effect: Effect = READ,
    *,
    exposure: Exposure = Exposure.DEFERRED,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    **declared: Any,
) -> Tool[..., Any]:
    """Return a tool whose arguments are strings."""

    async def send(args: dict[str, Json], _: Context) -> str:
        return f"{name} ran with {args}"

    schema = {
        "type": "object",
        "properties": {one: {"type": "string"} for one in (*required, *optional)},
        "required": list(required),
        "additionalProperties": False,
    }
    spec = Spec(
        name=name,
        description=description,
        input_schema=schema,
        effect=effect,
        exposure=exposure,
        **declared,
    )
    return Tool.remote(spec, send)


@tool(effect=READ)
def clock() -> str:
    """Tell the time."""
    return "noon"


OFFICE = Toolset(
    clock,
    make_tool(
        "github_create_issue",
        "Create an issue in a repository. Labels must exist.",
        WRITE,
        required=("repo", "title"),
        optional=("body",),
    ),
    make_tool("github_list_issues", "List the issues of a repository.", required=("repo",)),
    make_tool("github_merge", "Merge a pull request.", WRITE, required=("repo", "number")),
    make_tool("slack_send", "Send a message to a channel.", WRITE, required=("channel", "text")),
    make_tool("slack_channels", "List the channels of a workspace."),
    make_tool("weather", "Get the weather.", search_hint="forecast rain temperature"),
)
"""Six tools to search for, and one that every request has."""
