"""`handrail runs export`."""

from __future__ import annotations

import json
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import click

from handrail.agent import dump_state
from handrail.cli._base.app import App, as_command, as_json
from handrail.cli._base.exits import CONSOLE_PACKAGES, Halt, need_packages
from handrail.cli._base.new_file import write_new_file
from handrail.cli._base.options import DATABASE, RUN
from handrail.cli._base.printable import safe
from handrail.cli._base.redact import redact_setting
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import StoredRun, open_store
from handrail.runs import verify

_KEPT = frozenset(
    """
    answer api began call call_id command decision effect ended event fingerprint id inner kind
    model pending stop tool truncated_call type
    """.split()
)
"""Text kept in a redacted run: names, IDs, rules, times and outcomes."""
_KEPT_WHOLE = frozenset({"calls", "given", "on", "origin"})
"""Values kept whole in a redacted run: call IDs, setting names, and rule origins."""


@as_command("export", "Export a run as JSON, or as a page to read.", DATABASE)
@click.argument("run", metavar="RUN", shell_complete=run_ids, help=RUN)
@click.option("--to", metavar="FILE", help="Write to FILE, which must not exist.")
@click.option(
    "--redact", is_flag=True, help="Replace every text and argument with a digest and a length."
)
@click.option(
    "--html",
    is_flag=True,
    help="Export a page to read: timeline, calls, decisions and diffs. It needs no network to "
    "open, and `handrail[console]` to make.",
)
def command(app: App, *, run: str, to: str | None, redact: bool, html: bool) -> None:
    """Export a run as one JSON document: metadata, state and journal. Or as one HTML page.

    Without --to, the document goes to stdout, whatever --output is. Load its state with
    handrail.agent.load_state.
    """
    if html and redact:
        raise click.UsageError("`--redact` is for JSON; a page has the text")
    saved = open_store(app).find(run)
    text = _page(saved) if html else _document(app, saved, redact=redact)
    if to is None:
        click.echo(text, nl=False)
        return
    path = app.workspace / Path(to).expanduser()
    size = write_new_file(path, text, "choose another file with `--to`")
    app.print({"id": saved.id, "to": str(path), "bytes": size}, [safe(str(path))])


def _document(app: App, saved: StoredRun, *, redact: bool) -> str:
    whole: dict[str, Any] = {"handrail": 1, "redacted": redact, **_parts(saved)}
    document: dict[str, Any] = _redact(whole) if redact else whole
    document["about"] |= saved.standing._asdict()
    return f"{as_json(document, indent=None if app.output == 'jsonl' else 2)}\n"


def _page(saved: StoredRun) -> str:
    need_packages("--html", *CONSOLE_PACKAGES, extra="console")
    from handrail.console import export_run

    about, head = saved.about, saved.head
    broken = verify(saved.journal, saved.id)
    chain = f"broken at entry {broken.number}: {broken.reason}" if broken else "whole"
    facts = {name: str(about[name]) for name in ("workspace", "command") if about[name]}
    facts["journal"] = f"{head.entries} entries, {chain}, {head.digest}"
    with closing(saved.journal.records()) as records:
        return export_run(records, saved.id, saved.lines(), facts)


def _parts(saved: StoredRun) -> dict[str, Any]:
    about = saved.about
    settings = {name: redact_setting(name, value) for name, value in about["settings"].items()}
    return {
        "about": {**about, "settings": settings},
        "state": _state(saved),
        "journal": [line for line in saved.lines() if line["event"] != "status"],
    }


def _state(saved: StoredRun) -> Any:
    """Return a run's state, or None if it cannot be read."""
    try:
        return json.loads(dump_state(saved.state()))
    except Halt:
        return None


def _redact(value: Any, key: str = "") -> Any:
    """Return a value without text, except known harmless text."""
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
