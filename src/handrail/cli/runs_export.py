"""`handrail runs export`."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import click

from handrail.agent import dump
from handrail.cli._app import App, as_command, as_json
from handrail.cli._exits import Exit, Halt, safe
from handrail.cli._options import run_ids
from handrail.cli._saved import Saved, find_run
from handrail.cli.config_show import shown_of

_KEPT = frozenset(
    """
    answer began call call_id command cut decision effect ended event fingerprint id kind model
    pending stop tool type wire
    """.split()
)
"""What a redacted run still says: names, ids, rules, times and how things ended."""
_KEPT_WHOLE = frozenset({"calls", "given", "on", "origin"})
"""Ids of calls, names of settings, and a rule with its place."""


@as_command("export", "Write a whole run down as JSON.")
@click.argument("run", metavar="RUN", shell_complete=run_ids)
@click.option("--to", metavar="FILE", help="Write it there; the file must be new.")
@click.option(
    "--redact", is_flag=True, help="Put a digest and a length in place of every text and argument."
)
def command(app: App, *, run: str, to: str | None, redact: bool) -> None:
    """Write a whole run down as one JSON document: about, state and journal.

    RUN is the id of one, or its beginning, or last. The state is what handrail.agent.dump gives:
    load it back with handrail.agent.load. Without --to the document goes to stdout, whatever
    --output says.
    """
    saved = find_run(run)
    whole = {"handrail": 1, "redacted": redact, **_parts(saved)}
    document = _redacted(whole) if redact else whole
    indent = None if app.output == "jsonl" else 2
    if to is None:
        click.echo(as_json(document, indent=indent))
        return
    path = app.workspace / Path(to).expanduser()
    size = _write(path, f"{as_json(document, indent=indent)}\n")
    app.print({"id": saved.id, "to": str(path), "bytes": size}, [safe(str(path))])


def _parts(saved: Saved) -> dict[str, Any]:
    about = saved.about
    settings = {name: shown_of(name, value) for name, value in about["settings"].items()}
    return {
        "about": {**about, "settings": settings, "stop": saved.stop},
        "state": _state(saved),
        "journal": saved.journal(),
    }


def _state(saved: Saved) -> Any:
    """The state; None where it cannot be read."""
    try:
        return json.loads(dump(saved.state()))
    except Halt:
        return None


def _redacted(value: Any, key: str = "") -> Any:
    """The same without texts: what is not known to be harmless is one."""
    if key in _KEPT_WHOLE:
        return value
    if key == "args" or (isinstance(value, str) and key not in _KEPT):
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return {"sha256": digest, "chars": len(text)}
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _redacted(one, name) for name, one in named.items()}
    if isinstance(value, list):
        return [_redacted(one) for one in cast("list[object]", value)]
    return value


def _write(path: Path, text: str) -> int:
    """Write a new file that nobody else can read; how many bytes it has."""
    content = text.encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        hint = "take another name, or move it away"
        raise Halt(f"{path} is there already", code="exists", hint=hint) from None
    except OSError as error:
        raise Halt(
            f"{path}: {error.strerror}", code="unwritable", hint="", exits=Exit.FAILED
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return len(content)
