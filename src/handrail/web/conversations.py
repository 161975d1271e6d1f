"""Conversations: messages by person, for any number of processes, beside the runs.

``Conversations`` stores them. One process at a time continues a conversation.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from anyio import to_thread

from handrail import HandrailError, Json, Text
from handrail.agent import RunState, dump_state, load_state
from handrail.messages import Message, Prompt
from handrail.runs import RunStore, open_runs

__all__ = ["ConversationBusy", "ConversationHead", "Conversations", "SavedConversation"]

LEASE_SECONDS = 60.0  # a dead process gives nothing back: decision 120
"""How long a process may continue a conversation without renewing its claim."""
PARKED = -1.0
"""The lease while a run works or waits by itself."""
MAX_ID_CHARS = 100
MAX_TITLE_CHARS = 80
_HEAD = (
    "SELECT id, principal, title, about, began, changed, entries, run, lease "
    "FROM handrail_conversation WHERE principal = :principal"
)
_MESSAGES = (
    "SELECT body FROM handrail_message WHERE principal = :principal AND conversation = :id "
    "AND number >= :first ORDER BY number"
)
_CREATE = (
    "INSERT INTO handrail_conversation VALUES "
    "(:principal, :id, :title, :about, :now, :now, :entries, :run, :lease) ON CONFLICT DO NOTHING"
)
_APPEND = (
    "UPDATE handrail_conversation SET entries = entries + :count, changed = :now, lease = :lease, "
    "about = :about, run = :run WHERE principal = :principal AND id = :id AND entries = :entries "
    "AND lease = :before AND COALESCE(run, '') = :last"
)
_PUT = "INSERT INTO handrail_message VALUES (:principal, :id, :number, :run, :body)"
_HERE = "principal = :principal AND id = :id"
_LEASE = (
    f"UPDATE handrail_conversation SET lease = :lease WHERE {_HERE} AND run = :run "
    "AND lease = :before"
)

_OLD = (
    "SELECT principal, id FROM handrail_conversation WHERE changed < :before AND lease = 0 "
    "ORDER BY principal, id LIMIT :limit"
)
_PRUNE = f"DELETE FROM handrail_conversation WHERE {_HERE} AND changed < :before AND lease = 0"
_PRUNE_MESSAGES = (
    "DELETE FROM handrail_message WHERE principal = :principal AND conversation = :id AND NOT "
    f"EXISTS (SELECT 1 FROM handrail_conversation WHERE {_HERE})"
)
_OLD_RUNS = (
    "SELECT r.id FROM handrail_run r JOIN handrail_summary s ON s.run = r.id "
    "WHERE r.app IS NULL AND s.agent = 'web' AND r.changed < :before AND NOT EXISTS "
    "(SELECT 1 FROM handrail_conversation c WHERE c.run = r.id AND c.lease <> 0) LIMIT :limit"
)
_BATCH = 200
_Step: TypeAlias = tuple[str, list[dict[str, Any]]]
"""A statement, and the values for each time it runs."""


class ConversationBusy(HandrailError):
    """Another request continues the conversation, or has added messages."""


class ConversationHead(NamedTuple):
    """A conversation without its messages."""

    id: str
    principal: str
    title: str
    """The beginning of the first message."""
    metadata: Mapping[str, Json]
    began: float
    changed: float
    entries: int
    """How many messages it has."""
    run: str
    """The latest run; empty if there was none."""
    lease: float
    """Until when a process continues it. 0: none does. Below 0: its run continues by itself."""


class SavedConversation(NamedTuple):
    """A conversation."""

    head: ConversationHead
    messages: tuple[Message, ...]


class Conversations:
    """Stores conversations in the database of runs. Each belongs to one principal.

    Every method takes the principal: no one reads another's conversation, even with its id.

    Args:
        database: The path of a SQLite file, ``postgresql://...``, or a ``RunStore``.
        clock: Returns the time in seconds.
    """

    def __init__(self, database: str | RunStore, *, clock: Callable[[], float] = time.time) -> None:
        self.store = open_runs(database) if isinstance(database, str) else database
        self._database = self.store.database
        self._clock = clock
        self._is_ready = False

    async def create(
        self,
        principal: str,
        id: str,  # noqa: A002
        *,
        title: str = "",
        metadata: Mapping[str, Json] | None = None,
    ) -> ConversationHead:
        """Create a conversation, and return it. One that exists is returned unchanged."""
        return await self._create(self._make_head(principal, id, title, metadata), ())

    async def begin(
        self,
        principal: str,
        id: str,  # noqa: A002
        run: str,
        prompt: Prompt,
        *,
        metadata: Mapping[str, Json] | None = None,
    ) -> ConversationHead:
        """Create a conversation with a prompt, claimed for the run that answers it; see ``claim``.

        One that exists is returned unchanged: its run is another one.
        """
        new = self._make_head(principal, id, make_title(prompt), metadata)
        return await self._create(new._replace(run=run, lease=self._make_lease()), (prompt,))

    async def _create(self, new: ConversationHead, messages: Sequence[Message]) -> ConversationHead:
        check_name(new.principal, "principal")
        check_name(new.id, "id")
        await self.prepare()
        new = new._replace(entries=len(messages))
        values = {**new._asdict(), "run": new.run or None, "now": new.began}
        steps = [(_CREATE, [values | {"about": json.dumps(new.metadata)}])]
        if messages:
            steps.append((_PUT, _message_rows(new, messages, 0)))
        is_new = await self._database.transact(steps, 1)
        return new if is_new else await self.head(new.principal, new.id)

    async def head(self, principal: str, id: str) -> ConversationHead:  # noqa: A002
        """Return a conversation without its messages. Raises LookupError if there is none."""
        await self.prepare()
        rows = await self._database.read(f"{_HEAD} AND id = :id", principal=principal, id=id)
        if not rows:
            raise LookupError(f"There is no conversation {id[:MAX_ID_CHARS]!r}.")
        return _read_head(rows[0])

    async def get(self, principal: str, id: str) -> SavedConversation:  # noqa: A002
        """Return a conversation. Raises LookupError if there is none."""
        head = await self.head(principal, id)
        rows = await self._database.read(_MESSAGES, principal=principal, id=id, first=0)
        return SavedConversation(head, tuple(one for (text,) in rows for one in load(text)))

    async def list(
        self, principal: str, *, before: float | None = None, limit: int = 50
    ) -> tuple[ConversationHead, ...]:
        """Return a principal's conversations, the latest first.

        Args:
            principal: Whose.
            before: Only those that changed before this time.
            limit: How many to return at most.
        """
        await self.prepare()
        where = "" if before is None else " AND changed < :before"
        values: dict[str, Any] = {} if before is None else {"before": before}
        rows = await self._database.read(
            f"{_HEAD}{where} ORDER BY changed DESC, id LIMIT :limit",
            principal=principal,
            limit=limit,
            **values,
        )
        return tuple(map(_read_head, rows))

    async def append(self, head: ConversationHead, messages: Iterable[Message]) -> ConversationHead:
        """Add messages behind those of a head, and return the new head.

        Raises ConversationBusy if the conversation has changed, or a run continues it. If the
        connection was lost, the change can be your own: read it again.
        """
        if head.lease:
            raise ConversationBusy(_BUSY)
        return await self._append(head, tuple(messages), run=head.run, lease=0.0)

    async def claim(
        self,
        head: ConversationHead,
        run: str,
        prompt: Prompt,
        *,
        metadata: Mapping[str, Json] | None = None,
    ) -> ConversationHead:
        """Add a prompt, and claim the conversation for the run that answers it.

        Others then get ConversationBusy. The claim lapses after 60 seconds unless it is renewed.

        Args:
            head: The conversation.
            run: The run's new id.
            prompt: What the person wrote.
            metadata: Replaces the conversation's: what is known about the person now.
        """
        if head.lease:
            raise ConversationBusy(_BUSY)
        if metadata is not None:
            head = head._replace(metadata=json.loads(json.dumps(dict(metadata))))
        return await self._append(head, (prompt,), run=run, lease=self._make_lease())

    async def renew(self, head: ConversationHead) -> ConversationHead:
        """Renew a claim. Raises ConversationBusy if it was lost."""
        return await self._set_lease(head, self._make_lease())

    async def park(self, head: ConversationHead) -> ConversationHead:
        """Keep a claim without a process: the run continues by itself, or waits for a person."""
        return await self._set_lease(head, PARKED)

    async def settle(self, head: ConversationHead, messages: Sequence[Message]) -> ConversationHead:
        """End a claim, and add the run's messages. Raises ConversationBusy if it was lost."""
        return await self._append(head, messages, run=head.run, lease=0.0)

    def has_lapsed(self, head: ConversationHead) -> bool:
        """Return whether the process with the claim has died, or was too slow."""
        return 0 < head.lease < self._clock()

    async def find(self, run: str) -> ConversationHead | None:
        """Return the conversation whose latest run this is, of any principal. For servers."""
        await self.prepare()
        sql = _HEAD.replace("principal = :principal", "run = :run")
        rows = await self._database.read(sql, run=run)
        return _read_head(rows[0]) if rows else None

    async def delete(self, principal: str, id: str) -> bool:  # noqa: A002
        """Delete a conversation. Returns False if there is none. Its runs stay."""
        await self.prepare()
        values = {"principal": principal, "id": id}
        rows = [
            (f"DELETE FROM handrail_conversation WHERE {_HERE}", [values]),
            (
                "DELETE FROM handrail_message WHERE principal = :principal AND conversation = :id",
                [values],
            ),
        ]
        return (await self._database.transact(rows, 0))[0] > 0

    async def erase(self, principal: str) -> None:
        """Delete a principal's conversations, files and approvals, and what their runs recorded.

        ``DurableRuns.erase`` does this for durable runs.
        """
        await self.prepare()
        await to_thread.run_sync(self.store.erase, principal)

    async def prune(self, *, older_than: float) -> int:
        """Delete conversations unchanged for ``older_than`` seconds, and files and runs as old.

        Those that a run continues stay, and durable runs. Returns how many conversations were
        deleted.
        """
        await self.prepare()
        deleted, before = 0, self._clock() - older_than
        while rows := await self._database.read(_OLD, before=before, limit=_BATCH):
            keys = [{"principal": one[0], "id": one[1], "before": before} for one in rows]
            here = [{"principal": one[0], "id": one[1]} for one in rows]
            gone = await self._database.transact([(_PRUNE, keys), (_PRUNE_MESSAGES, here)], 0)
            deleted += gone[0]
        await self._database.write("DELETE FROM handrail_file WHERE at < :before", before=before)
        while runs := await self._database.read(_OLD_RUNS, before=before, limit=_BATCH):
            for (run,) in runs:
                await to_thread.run_sync(self.store.remove, run)
        return deleted

    async def _append(
        self, head: ConversationHead, messages: Sequence[Message], *, run: str, lease: float
    ) -> ConversationHead:
        new, append, rows = self._plan(head, messages, run=run, lease=lease)
        # a statement is repeated after a lost connection, and the first one may have succeeded
        if not await self._database.transact([append, *rows], 1):
            found = await self.head(head.principal, head.id)
            is_mine = (run, lease) != (head.run, head.lease) and run
            if not is_mine or found != new._replace(changed=found.changed):
                raise ConversationBusy(_BUSY)
        return new

    def plan_settling(
        self, head: ConversationHead, messages: Sequence[Message]
    ) -> tuple[ConversationHead, _Step, Sequence[_Step]]:
        """Return what ``settle`` writes: the new head, its guard, and other statements."""
        return self._plan(head, messages, run=head.run, lease=0.0)

    def _plan(
        self, head: ConversationHead, messages: Sequence[Message], *, run: str, lease: float
    ) -> tuple[ConversationHead, _Step, Sequence[_Step]]:
        now = self._clock()
        new = head._replace(entries=head.entries + len(messages), run=run, lease=lease, changed=now)
        guard = {"principal": head.principal, "id": head.id, "run": run or None, "now": now}
        guard |= {"count": len(messages), "lease": lease, "about": json.dumps(dict(head.metadata))}
        guard |= {"entries": head.entries, "before": head.lease, "last": head.run}
        rows = _message_rows(new, messages, head.entries)
        return new, (_APPEND, [guard]), [(_PUT, rows)] if rows else []

    def _make_head(
        self,
        principal: str,
        id: str,  # noqa: A002
        title: str,
        metadata: Mapping[str, Json] | None,
    ) -> ConversationHead:
        now, about = self._clock(), json.loads(json.dumps(dict(metadata or {})))
        return ConversationHead(id, principal, title[:MAX_TITLE_CHARS], about, now, now, 0, "", 0.0)

    def _make_lease(self) -> float:
        """Return a new lease, unlike any other: a process knows its own by its value."""
        return self._clock() + LEASE_SECONDS + random.random()  # noqa: S311  not a secret

    async def _set_lease(self, head: ConversationHead, lease: float) -> ConversationHead:
        values: dict[str, Any] = {"principal": head.principal, "id": head.id, "run": head.run}
        values |= {"lease": lease, "before": head.lease}
        if not await self._database.write(_LEASE, **values):
            now = await self.head(head.principal, head.id)
            if (now.run, now.lease) != (head.run, lease):
                raise ConversationBusy(_BUSY)
        return head._replace(lease=lease)

    async def prepare(self) -> None:
        """Create the tables, unless they exist. Other methods do so, too."""
        if not self._is_ready:
            await to_thread.run_sync(self.store.create)
            self._is_ready = True


_BUSY = "Another request continues this conversation."


def dump(message: Message) -> str:
    """Return a message as text."""
    return dump_state(RunState(messages=(message,)))


def load(text: str) -> tuple[Message, ...]:
    """Read the text from ``dump``."""
    return load_state(text).messages


def check_name(text: str, what: str) -> None:
    """Raise ValueError for a text no database stores as a key."""
    if not text or len(text) > MAX_ID_CHARS or not text.isprintable():
        raise ValueError(f"The {what} must have 1 to {MAX_ID_CHARS} printable characters.")


def _message_rows(
    head: ConversationHead, messages: Sequence[Message], first: int
) -> list[dict[str, Any]]:
    where = {"principal": head.principal, "id": head.id, "run": head.run or None}
    return [
        {**where, "number": number, "body": dump(message)}
        for number, message in enumerate(messages, first)
    ]


def _read_head(row: Sequence[Any]) -> ConversationHead:
    id_, principal, title, about, began, changed, entries, run, lease = row
    metadata = json.loads(about)
    return ConversationHead(
        id_, principal, title, metadata, began, changed, entries, run or "", lease
    )


def make_title(prompt: Prompt) -> str:
    """Return the beginning of a prompt's text."""
    texts = [part.text for part in prompt.parts if isinstance(part, Text)]
    return " ".join(" ".join(texts).split())[:MAX_TITLE_CHARS]
