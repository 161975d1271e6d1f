"""`handrail runs export`."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import click

from handrail.agent import dump_state
from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import RUN
from handrail.cli._base.printable import safe
from handrail.cli._base.redact import redact_setting
from handrail.cli._runs.saved import SavedRun, find_run, run_ids

_KEPT = frozenset(
    """
    answer api began call call_id command decision effect ended event fingerprint id kind model
    pending stop tool truncated_call type
    """.split()
)
"""Text that a redacted run keeps: names, IDs, rules, times and outcomes."""
_KEPT_WHOLE = frozenset({"calls", "given", "on", "origin"})
"""Values that a redacted run keeps whole: call IDs, setting names, and rule origins."""


@as_command("export", "Export a run as JSON.")
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.option("--to", metavar="FILE", help="Write to FILE, which must not exist.")
@click.option(
    "--redact", is_flag=True, help="Replace every text and argument with a digest and a length."
)
def command(app: App, *, run: str, to: str | None, redact: bool) -> None:
    """Export a run as one JSON document: metadata, state and journal.

    Without --to, the document goes to stdout, whatever --output is. Load its state with
    handrail.agent.load_state.
    """
    saved = find_run(run)
    whole = {"handrail": 1, "redacted": redact, **_parts(saved)}
    document = _redact(whole) if redact else whole
    indent = None if app.output == "jsonl" else 2
    if to is None:
        click.echo(as_json(document, indent=indent))
        return
    path = app.workspace / Path(to).expanduser()
    size = _write(path, f"{as_json(document, indent=indent)}\n")
    app.print({"id": saved.id, "to": str(path), "bytes": size}, [safe(str(path))])


def _parts(saved: SavedRun) -> dict[str, Any]:
    about = saved.about
    settings = {name: redact_setting(name, value) for name, value in about["settings"].items()}
    return {
        "about": {**about, "settings": settings, "stop": saved.stop},
        "state": _state(saved),
        "journal": saved.journal(),
    }


def _state(saved: SavedRun) -> Any:
    """Return the state of a run; None if it cannot be read."""
    try:
        return json.loads(dump_state(saved.state()))
    except Halt:
        return None


def _redact(value: Any, key: str = "") -> Any:
    """Return a value without text, except text that is known to be harmless."""
    if key in _KEPT_WHOLE:
        return value
    if key == "args" or (isinstance(value, str) and key not in _KEPT):
        text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return {"sha256": digest, "chars": len(text)}
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return {name: _redact(part, name) for name, part in named.items()}
    if isinstance(value, list):
        return [_redact(part) for part in cast("list[object]", value)]
    return value


def _write(path: Path, text: str) -> int:
    """Write a new file that only its owner can read, and return its size in bytes."""
    content = text.encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        hint = "choose another file with `--to`, or delete this one"
        raise Halt(f"{path} already exists", code="exists", hint=hint) from None
    except OSError as error:
        raise Halt(
            f"cannot write {path}: {error.strerror}",
            code="unwritable",
            hint="choose another file with `--to`",
            exits=Exit.FAILED,
        ) from None
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return len(content)
