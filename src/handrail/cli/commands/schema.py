"""`handrail schema`, which is also `handrail tools schema`."""

from __future__ import annotations

import click

from handrail.approvals import make_printable
from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import TOOL_OPTIONS, tool_names
from handrail.cli._project.apis import APIS, compile_tool
from handrail.cli._project.kit import Kit
from handrail.providers import UnsupportedTool


@as_command("schema", "Print a tool in the format of a model API.", *TOOL_OPTIONS)
@click.argument("name", shell_complete=tool_names, help="Name of the tool.")
@click.option(
    "--api",
    type=click.Choice(APIS),
    default="anthropic",
    show_default=True,
    help="API format.",
)
def command(app: App, name: str, api: str) -> None:
    """Print a tool in the format of a model API, as JSON.

    Details that the format cannot express are listed on stderr. A tool that cannot be converted
    is an error.
    """
    spec = Kit(app).tool(name).spec
    compiled = compile_tool(spec, api)
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
