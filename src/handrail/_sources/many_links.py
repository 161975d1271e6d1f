"""Many links in one call: looked up together, in time proportional to all texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from handrail._labels.sources import SourceKind, ValueSource
from handrail._sources.heard import Heard
from handrail._sources.lookup import Wanted
from handrail._sources.spelling import is_plain, normalize_value
from handrail._sources.wanted import list_links


def find_together(heard: Heard, wanted: Sequence[Wanted]) -> tuple[ValueSource, ...]:
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
