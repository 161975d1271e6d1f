"""`handrail tools lint` and `handrail schema`: tools in the formats of model APIs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import click

from handrail import Exposure, Spec, Toolset, lint
from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.columns import quantity
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import TOOL_OPTIONS, tool_names
from handrail.cli._project.kit import Kit
from handrail.providers import PROVIDERS, CompiledTool, UnsupportedTool

_APIS = tuple(provider.cli_name for provider in PROVIDERS.values())


@as_command("lint", "Check tools for problems that confuse models.", *TOOL_OPTIONS)
@click.option(
    "--api",
    type=click.Choice(["all", *_APIS]),
    default="all",
    show_default=True,
    help="API format to check.",
)
def lint_tools(app: App, api: str) -> Exit:
    """Check tools for problems that confuse models.

    The exit code is 1 if there is a finding: a tool to fix, or one that an API format cannot
    express at all. Details that a format cannot express are listed as lost; they are not findings.
    """
    tools = Kit(app).tools
    findings = [
        {"tool": finding.tool, "api": None, "rule": finding.rule, "message": finding.message}
        for finding in lint(tools)
    ]
    lost: list[dict[str, Any]] = []
    for api_name in _APIS if api == "all" else (api,):
        for item in _check_api(tools, api_name):
            (findings if item["rule"] == "unsupported" else lost).append(item)
    document = {"tools": len(tools), "findings": findings, "losses": lost}
    app.print(document, [*map(_line, findings), *map(_line, lost)])
    if not findings:
        app.say(f"no problems in {quantity(len(tools), 'tool')}")
    return Exit.FAILED if findings else Exit.DONE


def _check_api(tools: Toolset, api: str) -> Iterator[dict[str, Any]]:
    """Yield what an API format cannot express. Hidden tools are not sent, and are skipped.

    An executor adds the tool for finding deferred ones, so each format can express them.
    """
    for tool in tools:
        if tool.spec.exposure is Exposure.HIDDEN:
            continue
        compiled = _compile_tool(replace(tool.spec, exposure=Exposure.DIRECT), api)
        common = {"tool": tool.spec.name, "api": api}
        if isinstance(compiled, UnsupportedTool):
            yield {**common, "rule": "unsupported", "message": compiled.reason}
        else:
            yield from ({**common, "rule": "lost", "message": loss} for loss in compiled.losses)


def _line(item: dict[str, Any]) -> str:
    rule = f"{item['api']} {item['rule']}" if item["api"] else item["rule"]
    return make_printable(f"{item['tool']}: {item['message']} [{rule}]").text


@as_command("schema", "Print a tool in the format of a model API.", *TOOL_OPTIONS)
@click.argument("name", shell_complete=tool_names, help="Name of the tool.")
@click.option(
    "--api",
    type=click.Choice(_APIS),
    default="anthropic",
    show_default=True,
    help="API format.",
)
def print_schema(app: App, name: str, api: str) -> None:
    """Print a tool in the format of a model API, as JSON.

    Details that the format cannot express are listed on stderr. A tool that cannot be converted
    is an error.
    """
    spec = Kit(app).tool(name).spec
    compiled = _compile_tool(spec, api)
    if isinstance(compiled, UnsupportedTool):
        message = f"the tool {name!r} cannot be converted to {api}: {compiled.reason}"
        hint = f"see `handrail tools lint --api {api}`"
        raise Halt(message, code="unsupported", hint=hint, exits=Exit.FAILED)
    document = {
        "tool": spec.name,
        "api": api,
        "wire": compiled.definition,
        "losses": list(compiled.losses),
    }
    app.print(document, [as_json(compiled.definition, indent=2)])
    if app.output == "text":
        for loss in compiled.losses:
            app.say(f"lost: {make_printable(loss).text}")


def _compile_tool(spec: Spec, api: str) -> CompiledTool | UnsupportedTool:
    """Convert one tool to one API format."""
    provider = import_module(f"handrail.providers.{api.replace('-', '_')}")
    result: CompiledTool | UnsupportedTool = provider.compile(spec)
    return result
