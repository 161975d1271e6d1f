"""Answer a request wherever its run is kept, and name a request in an address."""

from __future__ import annotations

import base64
import re
from collections.abc import Generator
from contextlib import closing, contextmanager

from anyio import to_thread

from handrail.permissions import Answer
from handrail.runs._reading.claims import AnswerOutcome, Claimant
from handrail.runs._serving.opening import open_store
from handrail.runs._store.database import Database
from handrail.runs.chain import dump_chain
from handrail.runs.journal import JournalReader, Summary
from handrail.runs.sqlite import SqliteJournal

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,100}")


async def answer_at(
    where: str, pending_id: str, answer: Answer, claimant: Claimant, *, run: str
) -> AnswerOutcome:
    """Answer a request in a file or a database, and return whether the answer is used.

    Args:
        where: The file of a journal or of durable runs, or ``postgresql://...``.
        pending_id: The id of the request.
        answer: The answer.
        claimant: Who answers.
        run: The run of the request.
    """
    if not await to_thread.run_sync(is_durable, where):
        with closing(SqliteJournal(where)) as journal:
            return await journal.claim(pending_id, answer, claimant)
    from handrail.runs.durable import DurableRuns

    summary = await to_thread.run_sync(_read_summary, where, run)
    name, version = summary.get("application", "handrail"), summary.get("version", "1")
    async with DurableRuns(where, {}, name=str(name), version=str(version)) as runs:
        return await runs.claim(pending_id, answer, claimant)


def _read_summary(where: str, run: str) -> Summary:
    with open_journal(where) as journal:
        head = journal.head(run)
    return {} if head is None else head.summary


@contextmanager
def open_journal(where: str) -> Generator[JournalReader]:
    """Open the journal of the runs in a file or a database, to read and to verify it. Blocks."""
    if is_durable(where):
        from handrail.runs._durable.journal import DurableJournal

        with closing(Database(where, read_only=True)) as database:
            yield DurableJournal(database)
    else:
        with closing(SqliteJournal(where)) as journal:
            yield journal


def dump_chain_at(where: str, run: str) -> Generator[str]:
    """Yield a run in a file or a database as ``dump_chain`` does. Blocks."""
    with open_journal(where) as journal:
        yield from dump_chain(journal, run)


def is_durable(where: str) -> bool:
    """Return whether workers run the runs in a file or a database, and not a command. Blocks."""
    with closing(open_store(where)) as store:
        return store.dialect.is_durable


def to_path(text: str) -> str:
    """Return an id for an address. Ids come from outside, so most are encoded.

    The address of an id that no database can store is that of the id as it was stored.
    """
    if _PLAIN.fullmatch(text):
        return text
    stored = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    return f"~{base64.urlsafe_b64encode(stored).decode().rstrip('=')}"


def from_path(path: str) -> str:
    """Return the id that ``to_path`` encoded; an id that nothing has for any other text."""
    if not path.startswith("~"):
        return path if _PLAIN.fullmatch(path) else ""
    try:
        plain = path[1:].encode("ascii")
        data = base64.b64decode(plain + b"=" * (-len(plain) % 4), altchars=b"-_", validate=True)
        text = data.decode("utf-8")
    except ValueError:
        return ""
    return text if to_path(text) == path else ""
