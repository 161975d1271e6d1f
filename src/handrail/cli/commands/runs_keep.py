"""`handrail runs`: verify, prune and erase runs; migrate and seal their database."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from handrail.cli._base.app import App, as_command
from handrail.cli._base.columns import columns, quantity
from handrail.cli._base.exits import Exit, Halt
from handrail.cli._base.options import COUNT, DATABASE, RUNS
from handrail.cli._base.printable import one_line
from handrail.cli._base.redact import redact_url
from handrail.cli._runs.saved import run_ids
from handrail.cli._runs.stores import CommandRuns, StoredRun, open_store
from handrail.runs import ChainBreak, RunHead, RunStore, verify

_DIGEST = re.compile(r"(\d+):([0-9a-f]{64})")
_AGE = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@as_command("verify", "Check that the journal of runs was not changed.", DATABASE)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=run_ids,
    help=RUNS,
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
def verify_runs(app: App, *, runs: Sequence[str], expect: str | None, file: Path | None) -> Exit:
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
    rows = [_chain_row(item) for item in items]
    app.print_all("runs", items, columns(rows, width=app.width) if rows else ["no runs"])
    return Exit.FAILED if any(item["broken"] for item in items) else Exit.DONE


def _read_digest(text: str | None, runs: int) -> tuple[int, str] | None:
    if text is None:
        return None
    match = _DIGEST.fullmatch(text)
    if match is None or runs != 1:
        raise click.UsageError("`--expect` needs one run, and a number and a digest: `12:4e0d…`")
    return int(match[1]), match[2]


def _check(journal: RunStore, run: str, known: tuple[int, str] | None) -> dict[str, Any]:
    return _describe_chain(journal.head(run) or RunHead(run), verify(journal, run, known=known))


def _check_file(path: Path, runs: Sequence[str], expect: str | None) -> list[dict[str, Any]]:
    from handrail.runs.chain import find_break, read_chains

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
    return [
        _describe_chain(chains[name][0], find_break(name, *chains[name], known)) for name in names
    ]


def _describe_chain(head: RunHead, broken: ChainBreak | None) -> dict[str, Any]:
    return {
        "id": head.run,
        "entries": head.entries,
        "digest": head.digest,
        "broken": broken and {"entry": broken.number, "reason": broken.reason},
    }


def _chain_row(item: dict[str, Any]) -> tuple[str, str, str]:
    name, broken = one_line(item["id"]), item["broken"]
    if broken:
        return name, "BROKEN", f"entry {broken['entry']}: {one_line(broken['reason'])}"
    return name, "ok", f"{item['entries']}:{one_line(item['digest'])}"


class _Age(click.ParamType[float]):
    """A number and a time unit."""

    name = "age"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the age in seconds."""
        match = _AGE.fullmatch(str(value))
        if match is None:
            self.fail(f"must be a number and s, m, h, d or w, as in 30d; got {value!r}", param, ctx)
        return int(match[1]) * float(_SECONDS[match[2]])


@as_command("prune", "Delete old runs.", DATABASE)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN]...",
    shell_complete=run_ids,
    help="IDs of saved runs to delete, or prefixes of IDs.",
)
@click.option(
    "--older-than",
    type=_Age(),
    metavar="AGE",
    help="Delete runs that last changed this long ago: 30d, 12h, 4w.",
)
@click.option(
    "--max-seconds",
    type=COUNT,
    metavar="N",
    help="With --database and --older-than: stop after N seconds, even if more runs are left.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
def prune_runs(
    app: App,
    *,
    runs: Sequence[str],
    older_than: float | None,
    max_seconds: int | None,
    dry_run: bool,
) -> None:
    """Delete old runs, with their messages, results and events.

    With --older-than, runs that wait for approval are kept. A run that a process is working on is
    never deleted. Durable runs are deleted many at a time, and counted.
    """
    if bool(runs) == (older_than is not None):
        raise click.UsageError("name the runs, or pass `--older-than AGE`")
    store = open_store(app)
    if app.settings["database"] and older_than is not None and not dry_run:
        count = _prune(store, older_than, max_seconds)
        app.print(_describe_pruned(count, dry_run=False), [f"{quantity(count, 'run')} deleted"])
        return
    named = [store.find(name) for name in runs]
    found = named if older_than is None else _list_old(store, time.time() - older_than)
    removed: list[dict[str, str]] = []
    kept: list[dict[str, str]] = []
    for saved in found:
        reason = _find_reason(saved, named=bool(named))
        (kept if reason else removed).append({"id": saved.id, "reason": reason})
        if not (reason or dry_run):
            saved.remove()
    names = [item["id"] for item in removed]
    document = _describe_pruned(len(names), removed=names, kept=kept, dry_run=dry_run)
    done = "would be deleted" if dry_run else "deleted"
    lines = [f"{one_line(name)}  {done}" for name in names]
    lines += [f"{one_line(item['id'])}  kept: {item['reason']}" for item in kept]
    app.print(document, [*lines, f"{quantity(len(names), 'run')} {done}"])


def _describe_pruned(
    count: int,
    *,
    dry_run: bool,
    removed: Sequence[str] = (),
    kept: Sequence[dict[str, str]] = (),
) -> dict[str, Any]:
    return {"count": count, "removed": list(removed), "kept": list(kept), "dry_run": dry_run}


def _prune(store: CommandRuns, older_than: float, max_seconds: int | None) -> int:
    from handrail.cli._runs.durable_run import act  # loads the agent

    return act(
        store.journal, lambda runs: runs.prune(older_than=older_than, max_seconds=max_seconds)
    )


def _list_old(store: CommandRuns, before: float) -> list[StoredRun]:
    return [saved for saved in store.list() if saved.head.changed < before]


def _find_reason(saved: StoredRun, *, named: bool) -> str:
    """Return why to keep a run; empty if it can be deleted."""
    if saved.busy:
        return "a process is working on it"
    if not named and saved.head.status == "waiting":
        return "it waits for approval"
    return ""


@as_command("erase", "Delete all durable runs of a person or a service.", DATABASE)
@click.option(
    "--principal",
    metavar="NAME",
    required=True,
    help="The person or service on whose behalf the runs were started.",
)
def erase_runs(app: App, *, principal: str) -> None:
    """Delete all durable runs of a person or a service, with everything that belongs to them.

    Runs that have not ended are cancelled first. Conversations and files that web applications
    keep for this person are deleted, too. For each run, a digest of its ID and the end of its chain
    stay, so that an audit sees that it was erased.

    The name of someone who answered a request of another run stays in that run.
    """
    if not app.settings["database"]:
        raise Halt(
            "your own runs are on behalf of no one",
            code="usage",
            hint="pass `--database DATABASE`, or delete runs with `handrail runs prune`",
        )
    from handrail.cli._runs.durable_run import act  # loads the agent

    count = act(open_store(app).journal, lambda runs: runs.erase(principal))
    app.print({"principal": principal, "count": count}, [f"{quantity(count, 'run')} deleted"])


@as_command("migrate", "Create or change the tables of durable runs.", DATABASE)
@click.option("--sql", is_flag=True, help="Print SQL that does it, and change nothing.")
def migrate(app: App, *, sql: bool) -> None:
    """Create the tables of durable runs, or change them to those of this version.

    Workers do this when they start, unless they may not create tables. Then run this command as the
    owner of the tables, or let the owner run the SQL that --sql prints. It includes the tables of
    the engine.
    """
    from handrail.runs.migrating import migrate_tables, write_migrations

    address = app.settings["database"]
    if not address:
        hint = "pass the file or the URL of your DurableRuns with `--database`"
        raise Halt("no database of durable runs is named", code="usage", hint=hint)
    if "://" not in address:
        address = str(app.workspace / Path(address).expanduser())
    if sql:
        text = write_migrations(address)
        app.print({"sql": text}, text.splitlines() or ["-- nothing to change"])
        return
    done = list(migrate_tables(address))
    document = {"database": redact_url(address), "migrations": done}
    numbers = ", ".join(map(str, done))
    app.print(document, [f"applied: {numbers}" if done else "nothing to change"])


@as_command("rotate", "Seal the texts of durable runs with the current key.", DATABASE)
def rotate(app: App) -> None:
    """Seal the texts of durable runs with the current key of the setting `codec`.

    Texts that another key has sealed, or none, are sealed again, in batches, while workers
    continue. If the command is stopped, run it again.
    """
    if not (app.settings["database"] and app.settings["codec"]):
        raise Halt(
            "no database, or no codec, is named",
            code="usage",
            hint="pass `--database DATABASE`, and set `HANDRAIL_CODEC=MODULE:NAME`",
        )
    count = open_store(app).journal.rotate()
    app.print({"count": count}, [f"{quantity(count, 'text')} sealed"])
