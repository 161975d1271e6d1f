"""`handrail acp`."""

from __future__ import annotations

import importlib.util

from handrail.cli._base.app import App, as_command
from handrail.cli._base.exits import Halt
from handrail.cli._base.options import MODEL_OPTIONS, TOOL_OPTIONS
from handrail.cli._base.signals import run_alone


@as_command(
    "acp", "Work in an editor, by the Agent Client Protocol.", *TOOL_OPTIONS, *MODEL_OPTIONS
)
def command(app: App) -> None:
    """Work in an editor that speaks the Agent Client Protocol, such as Zed.

    The editor starts this command and talks to it over stdin and stdout. Approval requests appear
    in the editor. Every conversation is saved: see `handrail runs list`.
    """
    if importlib.util.find_spec("acp") is None:
        hint = "install it: pip install 'handrail[acp]'"
        raise Halt("an editor needs the package `agent-client-protocol`", code="extra", hint=hint)
    from handrail.cli._acp.server import serve_editor

    async def serve() -> None:
        await serve_editor(app)

    run_alone(serve)
