"""`handrail runs verify`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import DATABASE
from handrail.cli._base.printable import one_line
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import open_store
from handrail.runs import ChainBreak, RunHead, RunStore, verify
from handrail.runs.chain import find_break, read_chains

_DIGEST = re.compile(r"(\d+):([0-9a-f]{64})")


@as_command("verify", "Check that the journal of runs was not changed.", DATABASE)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=run_ids,
    help="IDs of saved runs, prefixes of IDs, or last (default: all saved runs).",
)
@click.option(
    "--expect",
    metavar="N:DIGEST",
    help="An entry and its digest, as an earlier check of this one run printed them.",
)
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Check a file with whole chains, as the console exports them, in place of saved runs.",
)
def command(app: App, *, runs: Sequence[str], expect: str | None, file: Path | None) -> Exit:
    """Check that the journal of runs was not changed.

    Each entry has a digest of its content and of the entry before it. A changed, added or missing
    entry is reported with its number, and the exit code is 1.

    Someone who can write the file can compute all digests again. Keep what this command prints in
    another place, and compare it later with --expect.
    """
    if file is None:
        store = open_store(app)
        journal = store.journal
        names = [store.find(name).id for name in runs] or sorted(journal.names(), reverse=True)
        known = _read_digest(expect, len(names))
        items = [_check(journal, name, known) for name in names]
    else:
        items = _check_file(app.workspace / file, runs, expect)
    app.print_all("runs", items, _lines(items, app.width) if items else ["no runs"])
    return Exit.FAILED if any(item["broken"] for item in items) else Exit.DONE


def _read_digest(text: str | None, runs: int) -> tuple[int, str] | None:
    if text is None:
        return None
    match = _DIGEST.fullmatch(text)
    if match is None or runs != 1:
        raise click.UsageError("`--expect` needs one run, and a number and a digest: `12:4e0d…`")
    return int(match[1]), match[2]


def _check(journal: RunStore, run: str, known: tuple[int, str] | None) -> dict[str, Any]:
    return _item(journal.head(run) or RunHead(run), verify(journal, run, known=known))


def _check_file(path: Path, runs: Sequence[str], expect: str | None) -> list[dict[str, Any]]:
    try:
        chains = read_chains(path.read_text(encoding="utf-8").splitlines())
    except OSError as error:
        raise Halt(f"cannot read {path}: {error.strerror}", code="file") from None
    except ValueError as error:
        hint = "export it again from the page Audit of the console"
        raise Halt(f"{path}: {error}", code="file", hint=hint) from None
    if missing := [name for name in runs if name not in chains]:
        raise Halt(f"{path} has no run {missing[0]}", code="file")
    names = list(runs) or sorted(chains)
    known = _read_digest(expect, len(names))
    return [_item(chains[name][0], find_break(name, *chains[name], known)) for name in names]


def _item(head: RunHead, broken: ChainBreak | None) -> dict[str, Any]:
    return {
        "id": head.run,
        "entries": head.entries,
        "digest": head.digest,
        "broken": broken and _describe(broken),
    }


def _describe(broken: ChainBreak) -> dict[str, Any]:
    return {"entry": broken.number, "reason": broken.reason}


def _lines(items: Sequence[dict[str, Any]], width: int | None) -> Iterator[str]:
    return columns([_row(item) for item in items], width=width)


def _row(item: dict[str, Any]) -> tuple[str, str, str]:
    name, broken = one_line(item["id"]), item["broken"]
    if broken:
        return name, "BROKEN", f"entry {broken['entry']}: {one_line(broken['reason'])}"
    return name, "ok", f"{item['entries']}:{one_line(item['digest'])}"
