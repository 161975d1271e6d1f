"""One call's sources: who named its destinations, and the links in its texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from handrail._labels.sources import SourceKind, ValueSource
from handrail._sources.heard import Heard, LastLookup
from handrail._sources.lookup import Wanted, find_source
from handrail._sources.spelling import is_plain, normalize_value
from handrail._sources.wanted import find_wanted, list_links
from handrail._values.access import EVERYTHING, Access
from handrail._values.effect import READ

_FILE = "file:"


def find_sources(
    heard: Heard | None,
    args: str,
    accesses: Iterable[Access],
    *,
    marked: Mapping[str, Any] | None,
    known: Iterable[ValueSource] = (),
) -> tuple[ValueSource, ...]:
    """Return who named each value in a call.

    Args:
        heard: What its run has heard. Without it, no one has named anything.
        args: The arguments, as JSON text.
        accesses: What the call touches.
        marked: The input schema with markers for destinations, if there are any.
        known: Sources that were looked up before, in another process.
    """
    heard = heard if heard is not None else Heard()
    touched = tuple(accesses)
    heard.catch_up()
    before = {source.value: source for source in known}
    writes = any(access.verb > READ for access in touched)
    wanted = find_wanted(args, touched, marked, writes=writes)
    alone = [one for one in wanted if not one.is_extra]
    found = tuple([before.get(one.value) or find_source(heard, one) for one in alone])
    if len(alone) < len(wanted):
        found += _find_together(heard, wanted[len(alone) :])
    heard.last = LastLookup(args, touched, marked, heard.version, found)
    return found


def drop_workspace_files(
    sources: Iterable[ValueSource], accesses: Iterable[Access]
) -> tuple[ValueSource, ...]:
    """Return sources without a workspace's own files, and the links in texts written there."""
    written = [access.resource for access in accesses if access.verb > READ]
    paths = [name.removeprefix(_FILE) for name in written if name.startswith(_FILE)]
    inside = len(paths) == len(written) and not any(map(_is_outside, paths))
    is_command = EVERYTHING in written
    kept = [one for one in sources if one.name != "file" or _is_outside(one.value)]
    return tuple([one for one in kept if not (one.is_link and (inside or is_command))])


def _is_outside(path: str) -> bool:
    """Return whether a path may lead outside the workspace."""
    return path.startswith(("/", "~")) or ".." in path.split("/")


def _find_together(heard: Heard, wanted: Sequence[Wanted]) -> tuple[ValueSource, ...]:
    """Return one source for all links that no person or own system has named, or nothing.

    A link is named only by the same link: a part of one in a text is none.
    """
    around = list(heard.around)
    named = _spell(link for one in around for text in one.said for link in list_links(text))
    for one in around:
        named.update(
            value for value, own in one.own.items() if any(not each.own.scheme for each in own)
        )
    left = [one for one in wanted if not _is_in(one, named)]
    if not left:
        return ()
    read = _spell(link for one in around for each in one.reads for link in list_links(each.text))
    made_up = [one for one in left if not _is_in(one, read)]
    first, others = (made_up or left)[0], len(left) - 1
    title = f"{others} more link{'s' if others > 1 else ''}" if others else ""
    kind: SourceKind = "nowhere" if made_up else "read"
    return (
        ValueSource(
            value=first.value,
            name=first.name,
            kind=kind,
            verb=first.verb,
            is_link=True,
            title=title,
        ),
    )


def _spell(links: Iterable[str]) -> set[str]:
    return set(map(normalize_value, links))


def _is_in(wanted: Wanted, known: set[str]) -> bool:
    return is_plain(wanted.value) and normalize_value(wanted.value) in known
