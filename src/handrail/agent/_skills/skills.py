"""Find skills (folders with a ``SKILL.md``), list them in a catalog, and load them with a tool.

The catalog has a name and a description for each skill. The rest is read when a model loads the
skill, and compared again with the trusted content.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from handrail import HandrailError, Toolset
from handrail._support.visible import list_unseen
from handrail.agent._found_files import (
    HAS_TAGS,
    IS_LINK,
    MAX_PATH_CHARS,
    NOT_TRUSTED,
    AnyPath,
    Field,
    FolderEntry,
    Gone,
    IsTrusted,
    Notice,
    NoticeKind,
    NotRead,
    Untrusted,
    decode_text,
    is_trusted,
    list_folder,
    open_folder,
    open_subfolder,
    trust_nothing,
)
from handrail.agent._skills.skill_folder import (
    MAX_FOLDER_BYTES,
    SKILL_FILE,
    SKIPPED_FOLDERS,
    SkillFolder,
    SkillText,
    TooLarge,
    read_skill_folder,
    split_skill,
)
from handrail.agent._skills.skill_tool import SkillSource, skill_tool
from handrail.agent._tagged_text import has_tags, to_one_line

MAX_DEPTH = 4
"""How deep in a location a skill can be."""
MAX_FOLDERS = 2_000
"""Folders of one location that are searched."""
MAX_SKILLS = 250
"""Skills of one location, and in the catalog. Some providers do not accept longer enums."""
MAX_LOCATION_BYTES = 256 * 1024 * 1024
"""Bytes of all files of all skills in one location."""
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1_024
MAX_CATALOG_CHARS = 32_000
"""Characters of all descriptions together. If there are more, each one is truncated."""

_HEAD = (
    "Skills are instructions for specific kinds of tasks. If a task matches one of these "
    "descriptions, call the skill tool with its name before you start."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill, as described in its ``SKILL.md``."""

    name: str
    description: str
    """On one line, with invisible characters escaped."""
    folder: str
    """Relative to the workspace, or the absolute path for one of the user's own skills."""
    from_user: bool
    fields: Mapping[str, Field]
    """All fields of the front matter, including unknown keys. They grant no permissions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skills:
    """The skills that were found, and notices for the user."""

    skills: tuple[Skill, ...] = ()
    catalog: str = ""
    """The list of skills for the system prompt, or empty if there are none."""
    tools: Toolset = field(default_factory=Toolset)
    """The tool that loads a skill, or empty if there are none."""
    untrusted: tuple[Untrusted, ...] = ()
    """Skills that were ignored because the user has not trusted their current content."""
    notices: tuple[Notice, ...] = ()


def find_skills(
    root: AnyPath | None = None,
    *,
    trusted: IsTrusted = trust_nothing,
    folders: Sequence[str] = (".agents/skills", ".claude/skills"),
    user: Sequence[AnyPath] = (),
) -> Skills:
    """Find the skills of a workspace and of the user.

    If two skills have the same name, the workspace's is used before the user's, and an earlier
    folder's before a later one's.

    Args:
        root: The workspace, if there is one.
        trusted: Whether the user trusts this content of this skill. Other skills of the workspace
            are ignored.
        folders: Folders in the workspace that contain skills.
        user: Folders with the user's own skills, such as ``~/.agents/skills``. They need no trust.
    """
    search = _SkillSearch()
    if root is not None:
        real = os.path.realpath(root, strict=True)
        for path in folders:
            search.add(_SkillLocation(real, path.strip("/"), trusted))
    for folder in user:
        search.add(_SkillLocation(os.path.realpath(folder), "", None))
    return search.result()


class _SkillLocation(NamedTuple):
    """A location to search for skills. The user's own locations need no trust."""

    root: str
    path: str
    trusted: IsTrusted | None

    def display_path(self, path: str) -> str:
        """Return a path to show: relative to the workspace, or absolute for the user's own."""
        return path if self.trusted else f"{self.root}/{path}".rstrip("/")


class _LimitReached(NotRead):
    """The other skills of a location are skipped. The message says why."""


@dataclass(slots=True)
class _SearchBudget:
    """The remaining limits for one location."""

    folders: int = MAX_FOLDERS
    skills: int = MAX_SKILLS
    size: int = MAX_LOCATION_BYTES

    def spend(self, size: int) -> None:
        if size > self.size:
            raise _LimitReached(
                f"its skills are larger than {MAX_LOCATION_BYTES:,} bytes; the rest is ignored"
            )
        self.size -= size


class _SkillSearch:
    def __init__(self) -> None:
        self._skills: dict[str, tuple[Skill, SkillSource]] = {}
        self._untrusted: list[Untrusted] = []
        self._notices: list[Notice] = []
        self._display_path: Callable[[str], str] = str

    def add(self, location: _SkillLocation) -> None:
        budget = _SearchBudget()
        self._display_path = location.display_path
        try:
            with open_folder(location.root, location.path) as within:
                for path in self._skill_folders(within, location.path, MAX_DEPTH, budget):
                    self._add_folder(location, path, budget)
        except Gone:
            return
        except NotRead as reason:
            self._notify(location.path, "skipped", str(reason))

    def result(self) -> Skills:
        self._display_path = str
        skills_found = list(self._skills.items())
        for _, (skill, _) in skills_found[MAX_SKILLS:]:
            self._notify(skill.folder, "skipped", f"more than {MAX_SKILLS} skills")
        offered = dict(sorted(skills_found[:MAX_SKILLS]))
        skills = tuple(skill for skill, _ in offered.values())
        return Skills(
            skills=skills,
            catalog=_format_catalog(skills),
            tools=skill_tool({name: source for name, (_, source) in offered.items()}),
            untrusted=tuple(self._untrusted),
            notices=tuple(self._notices),
        )

    def _skill_folders(
        self, within: int, path: str, depth: int, budget: _SearchBudget
    ) -> Iterator[str]:
        """Yield the folders that are skills. Their subfolders are not searched."""
        entries = list_folder(within)
        if any(entry.name == SKILL_FILE for entry in entries):
            yield path
            return
        for entry in entries:
            if entry.kind in ("folder", "link") and entry.name not in SKIPPED_FOLDERS:
                if not budget.folders:
                    raise _LimitReached(f"more than {MAX_FOLDERS:,} folders; the rest is ignored")
                budget.folders -= 1
                yield from self._skill_folders_in(within, entry, path, budget, depth=depth)

    def _skill_folders_in(
        self, within: int, entry: FolderEntry, path: str, budget: _SearchBudget, *, depth: int
    ) -> Iterator[str]:
        inner = f"{path}/{entry.name}".lstrip("/")
        if entry.kind == "link" or not depth:
            why = IS_LINK if depth else f"more than {MAX_DEPTH} folders deep"
            self._notify(inner, "skipped", why)
            return
        try:
            with open_subfolder(within, entry.name) as deeper:
                yield from self._skill_folders(deeper, inner, depth - 1, budget)
        except _LimitReached:
            raise
        except NotRead as reason:
            self._notify(inner, "skipped", str(reason))

    def _add_folder(self, location: _SkillLocation, path: str, budget: _SearchBudget) -> None:
        if not budget.skills:
            raise _LimitReached(f"more than {MAX_SKILLS} skills; the rest is ignored")
        budget.skills -= 1
        try:
            folder = read_skill_folder(
                location.root, path, max_bytes=min(budget.size, MAX_FOLDER_BYTES)
            )
            budget.spend(folder.size)
            self._add_if_trusted(location, path, folder)
        except NotRead as reason:
            if isinstance(reason, TooLarge):
                budget.spend(MAX_FOLDER_BYTES)  # that much of it was read
            self._notify(path, "skipped", str(reason))

    def _add_if_trusted(self, location: _SkillLocation, path: str, folder: SkillFolder) -> None:
        if location.trusted and not is_trusted(location.trusted, path, folder.record):
            self._untrusted.append(Untrusted(path, folder.record))
            self._notify(path, "untrusted", NOT_TRUSTED)
            return
        text = decode_text(folder.skill)
        skill = self._make_skill(location, path, self._read_fields(path, split_skill(text)))
        if hidden := list_unseen(text.replace("\r\n", "\n")):
            self._notify(path, "invisible", f"contains invisible characters: {hidden}")
        if has_tags(text):
            self._notify(path, "escaped", HAS_TAGS)
        if skill.name in self._skills:
            first = self._skills[skill.name][0]
            where = to_one_line(first.folder, MAX_PATH_CHARS)
            why = f"the skill {skill.name!r} in {where!r} is used instead"
            self._notify(path, "shadowed", why)
        else:
            self._skills[skill.name] = (skill, SkillSource(location.root, path, location.trusted))

    def _read_fields(self, path: str, text: SkillText) -> Mapping[str, Field]:
        problems: tuple[str, ...] = (text.problem,)
        fields: Mapping[str, Field] = {}
        if text.head:
            fields, problems = _read_frontmatter(text.head)
        for problem in problems:
            self._notify(path, "lenient", to_one_line(problem, MAX_PATH_CHARS))
        return fields

    def _make_skill(
        self, location: _SkillLocation, path: str, fields: Mapping[str, Field]
    ) -> Skill:
        """Create a skill from its front matter. Raises NotRead if it cannot be used."""
        if _text(fields.get("disable-model-invocation")).lower() == "true":
            raise NotRead("disable-model-invocation is true")
        description = _text(fields.get("description"))
        if not description:
            raise NotRead("the description is missing")
        if len(description) > MAX_DESCRIPTION_CHARS:
            why = f"the description is truncated to {MAX_DESCRIPTION_CHARS:,} characters"
            self._notify(path, "lenient", why)
        return Skill(
            name=self._choose_name(location, path, _text(fields.get("name"))),
            description=to_one_line(description, MAX_DESCRIPTION_CHARS),
            folder=location.display_path(path),
            from_user=location.trusted is None,
            fields=fields,
        )

    def _choose_name(self, location: _SkillLocation, path: str, given: str) -> str:
        folder = f"{location.root}/{path}".rstrip("/").rpartition("/")[2]
        name = to_one_line(given or folder, MAX_NAME_CHARS)
        if given != folder:
            differs = f"the name {name!r} differs from the folder's name"
            why = differs if given else "the name is missing; the folder's name is used"
            self._notify(path, "lenient", why)
        if name != given and given:
            why = f"the name has more than {MAX_NAME_CHARS} characters, or invisible ones"
            self._notify(path, "lenient", why)
        return name

    def _notify(self, path: str, kind: NoticeKind, message: str) -> None:
        self._notices.append(
            Notice(to_one_line(self._display_path(path), MAX_PATH_CHARS), kind, message)
        )


def _read_frontmatter(head: str) -> tuple[Mapping[str, Field], tuple[str, ...]]:
    try:
        from handrail.agent._skills.frontmatter import read_frontmatter
    except ImportError:
        raise HandrailError(
            "Skills need PyYAML, which is not installed. Run: pip install 'handrail[skills]'"
        ) from None
    return read_frontmatter(head)


def _text(value: Field | None) -> str:
    return value.strip() if isinstance(value, str) else ""


def _format_catalog(skills: Sequence[Skill]) -> str:
    if not skills:
        return ""
    share = max(MAX_CATALOG_CHARS // len(skills), MAX_NAME_CHARS)
    lines = [f"- {skill.name}: {to_one_line(skill.description, share)}" for skill in skills]
    return "\n".join([_HEAD, "", "<skills>", *lines, "</skills>"])
