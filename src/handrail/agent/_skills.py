"""Skills: folders with a ``SKILL.md``, as a catalogue for the prompt and a tool that loads one.

The catalogue has a name and a description for each. The rest is read when a model asks for it, and
once more compared with what is trusted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from handrail import Toolset
from handrail.agent._files import (
    LINK,
    MOST_PATH,
    Entry,
    Gone,
    NotRead,
    Place,
    Remark,
    Rule,
    Trusted,
    Untrusted,
    agreed,
    below,
    folder,
    listing,
    nobody,
    text_of,
)
from handrail.agent._frontmatter import Field, Frontmatter, parsed
from handrail.agent._package import FILE, LARGEST, PASSED_OVER, Package, TooMuch, package
from handrail.agent._skill_tool import Source, skill_tool
from handrail.agent._wrap import has_tags, one_line, unseen

DEEPEST = 4
"""How far below a place a skill may be."""
MOST_FOLDERS = 2_000
"""Folders of one place that are looked into."""
MOST_SKILLS = 250
"""Of one place, and offered to a model: more, some providers do not take in one list."""
MOST_BYTES = 256 * 1024 * 1024
"""Bytes of all files of all skills of one place."""
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1_024
CATALOGUE = 32_000
"""Characters of all descriptions together; where they are more, each one is clipped."""

_HEAD = (
    "Skills are instructions for certain kinds of task, kept in files. Where a task fits one of "
    "these descriptions, call the tool skill with its name before you begin."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One skill, as its ``SKILL.md`` tells of itself."""

    name: str
    description: str
    """On one line, with nothing hidden in it."""
    folder: str
    """Relative to the workspace; the whole path for a skill of the user's own."""
    from_user: bool
    fields: Mapping[str, Field]
    """All that the file says, unknown keys too. None of it grants anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skills:
    """The skills that were found, and what there is to tell the user of them."""

    skills: tuple[Skill, ...] = ()
    catalogue: str = ""
    """For the head of a prompt; empty where there are no skills."""
    tools: Toolset = field(default_factory=Toolset)
    """The tool that loads a skill; empty where there are none."""
    untrusted: tuple[Untrusted, ...] = ()
    """What was found and not read, since nobody trusts it as it is now."""
    remarks: tuple[Remark, ...] = ()


def find_skills(
    root: Place | None = None,
    *,
    trusted: Trusted = nobody,
    folders: Sequence[str] = (".agents/skills", ".claude/skills"),
    user: Sequence[Place] = (),
) -> Skills:
    """Find the skills of a workspace and of its user.

    Where two have one name, the workspace's counts before the user's, and an earlier folder's
    before a later one's.

    Args:
        root: The workspace, if there is one.
        trusted: Whether a user has looked at this content of this skill. Without a yes, nothing
            of a skill in the workspace reaches a model.
        folders: Where in the workspace skills are kept.
        user: Folders of the user's own, such as ``~/.agents/skills``. They need no trust.
    """
    search = _Search()
    if root is not None:
        real = os.path.realpath(root, strict=True)
        for path in folders:
            search.look(_Place(real, path.strip("/"), trusted))
    for place in user:
        search.look(_Place(os.path.realpath(place), "", None))
    return search.done()


class _Place(NamedTuple):
    """Where skills are looked for; those of a user's own place are not asked about."""

    root: str
    path: str
    trusted: Trusted | None

    def shown(self, path: str) -> str:
        """A path for people: in the workspace, or where the user keeps it."""
        return path if self.trusted else f"{self.root}/{path}".rstrip("/")


class _Full(NotRead):
    """Why the rest of a place is left out."""


@dataclass(slots=True)
class _Room:
    """What may still be looked at in a place."""

    folders: int = MOST_FOLDERS
    skills: int = MOST_SKILLS
    size: int = MOST_BYTES

    def take(self, size: int) -> None:
        if size > self.size:
            raise _Full(f"its skills have more than {MOST_BYTES:,} bytes; the rest is left out")
        self.size -= size


class _Search:
    def __init__(self) -> None:
        self._skills: dict[str, tuple[Skill, Source]] = {}
        self._untrusted: list[Untrusted] = []
        self._remarks: list[Remark] = []
        self._shown: Callable[[str], str] = str

    def look(self, place: _Place) -> None:
        room = _Room()
        self._shown = place.shown
        try:
            with folder(place.root, place.path) as within:
                for path in self._found(within, place.path, DEEPEST, room):
                    self._consider(place, path, room)
        except Gone:
            return
        except NotRead as reason:
            self._remark(place.path, "left out", str(reason))

    def done(self) -> Skills:
        self._shown = str
        found = list(self._skills.items())
        for _, (skill, _) in found[MOST_SKILLS:]:
            why = f"no more than {MOST_SKILLS} skills are offered"
            self._remark(skill.folder, "left out", why)
        kept = dict(sorted(found[:MOST_SKILLS]))
        skills = tuple(skill for skill, _ in kept.values())
        return Skills(
            skills=skills,
            catalogue=_catalogue(skills),
            tools=skill_tool({name: source for name, (_, source) in kept.items()}),
            untrusted=tuple(self._untrusted),
            remarks=tuple(self._remarks),
        )

    def _found(self, within: int, path: str, depth: int, room: _Room) -> Iterator[str]:
        """The folders that are skills; what is in them is theirs."""
        entries = listing(within)
        if any(entry.name == FILE for entry in entries):
            yield path
            return
        for entry in entries:
            if entry.kind in ("folder", "link") and entry.name not in PASSED_OVER:
                if not room.folders:
                    raise _Full(f"it has more than {MOST_FOLDERS:,} folders; the rest is left out")
                room.folders -= 1
                yield from self._inside(within, entry, path, room, depth=depth)

    def _inside(
        self, within: int, entry: Entry, path: str, room: _Room, *, depth: int
    ) -> Iterator[str]:
        inner = f"{path}/{entry.name}".lstrip("/")
        if entry.kind == "link" or not depth:
            why = LINK if depth else f"it is more than {DEEPEST} folders deep"
            self._remark(inner, "left out", why)
            return
        try:
            with below(within, entry.name) as deeper:
                yield from self._found(deeper, inner, depth - 1, room)
        except _Full:
            raise
        except NotRead as reason:
            self._remark(inner, "left out", str(reason))

    def _consider(self, place: _Place, path: str, room: _Room) -> None:
        if not room.skills:
            raise _Full(f"it has more than {MOST_SKILLS} skills; the rest is left out")
        room.skills -= 1
        try:
            looked = package(place.root, path, most=min(room.size, LARGEST))
            room.take(looked.size)
            self._judge(place, path, looked)
        except NotRead as reason:
            if isinstance(reason, TooMuch):
                room.take(LARGEST)  # it was looked at as far as that
            self._remark(path, "left out", str(reason))

    def _judge(self, place: _Place, path: str, looked: Package) -> None:
        if place.trusted and not agreed(place.trusted, path, looked.record):
            self._untrusted.append(Untrusted(path, looked.record))
            self._remark(path, "untrusted", "it is not trusted as it is now, and was not read")
            return
        text = text_of(looked.skill)
        read = parsed(text)
        skill = self._skill(place, path, read)
        if hidden := unseen(text.replace("\r\n", "\n")):
            self._remark(path, "unseen", f"it holds characters that cannot be seen: {hidden}")
        if has_tags(text):
            self._remark(path, "escaped", "it holds tags like those around it; they are escaped")
        if skill.name in self._skills:
            first = self._skills[skill.name][0]
            where = one_line(first.folder, MOST_PATH)
            self._remark(path, "shadowed", f"the skill {skill.name!r} in {where!r} counts instead")
        else:
            self._skills[skill.name] = (skill, Source(place.root, path, place.trusted))

    def _skill(self, place: _Place, path: str, read: Frontmatter) -> Skill:
        """Take it as it is meant; NotRead where that cannot be told."""
        for problem in read.problems:
            self._remark(path, "lenient", one_line(problem, MOST_PATH))
        if _words(read.fields.get("disable-model-invocation")).lower() == "true":
            raise NotRead("it asks not to be offered to models")
        description = _words(read.fields.get("description"))
        if not description:
            raise NotRead("it has no description")
        if len(description) > LONGEST_DESCRIPTION:
            why = f"its description has more than {LONGEST_DESCRIPTION:,} characters; it is clipped"
            self._remark(path, "lenient", why)
        return Skill(
            name=self._name(place, path, _words(read.fields.get("name"))),
            description=one_line(description, LONGEST_DESCRIPTION),
            folder=place.shown(path),
            from_user=place.trusted is None,
            fields=read.fields,
        )

    def _name(self, place: _Place, path: str, said: str) -> str:
        own = f"{place.root}/{path}".rstrip("/").rpartition("/")[2]
        name = one_line(said or own, LONGEST_NAME)
        if said != own:
            why = f"its name {name!r} is not that of its folder" if said else "it has no name"
            self._remark(path, "lenient", why)
        if name != said and said:
            why = f"its name has more than {LONGEST_NAME} characters, or ones that hide"
            self._remark(path, "lenient", why)
        return name

    def _remark(self, path: str, rule: Rule, message: str) -> None:
        self._remarks.append(Remark(one_line(self._shown(path), MOST_PATH), rule, message))


def _words(value: Field | None) -> str:
    return value.strip() if isinstance(value, str) else ""


def _catalogue(skills: Sequence[Skill]) -> str:
    if not skills:
        return ""
    share = max(CATALOGUE // len(skills), LONGEST_NAME)
    lines = [f"- {one.name}: {one_line(one.description, share)}" for one in skills]
    return "\n".join([_HEAD, "", "<skills>", *lines, "</skills>"])
