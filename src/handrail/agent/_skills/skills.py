"""Find skills (folders with a ``SKILL.md``), list them in a catalog, and load them with a tool.

The catalog has a name and a description for each skill. The rest is read when a model loads the
skill, and compared again with the trusted content.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from handrail import HandrailError, Toolset
from handrail._support.visible import list_unseen
from handrail.agent._found_files import (
    HAS_TAGS,
    MAX_PATH_CHARS,
    NOT_TRUSTED,
    AnyPath,
    Field,
    FolderReader,
    Gone,
    IsTrusted,
    Notice,
    NoticeKind,
    NotRead,
    Untrusted,
    decode_text,
    is_trusted,
    trust_nothing,
)
from handrail.agent._skills.skill_folder import (
    MAX_FOLDER_BYTES,
    SKILL_FILE,
    SKIPPED_FOLDERS,
    SkillFolder,
    SkillText,
    TooLarge,
    first_paragraph,
    read_skill_folder,
    split_skill,
)
from handrail.agent._skills.skill_tool import SkillSource, skill_tool
from handrail.agent._tagged_text import has_tags, to_one_line

MAX_DEPTH = 4
"""How deep in a location a skill can be."""
MAX_FOLDERS = 2_000
"""Folders searched in one location."""
MAX_SKILLS = 250
"""Skills in one location, and in the catalog. Some providers do not accept longer enums."""
MAX_LOCATION_BYTES = 256 * 1024 * 1024
"""Bytes in all skill files in one location."""
MAX_NAME_CHARS = 64
MAX_DESCRIPTION_CHARS = 1_024
MAX_CATALOG_CHARS = 32_000
"""Characters in all descriptions together. If there are more, each one is truncated."""

_HEAD = (
    "Skills are instructions for specific kinds of tasks. If a task matches one of these "
    "descriptions, call the skill tool with its name before you start."
)
_NO_HEAD = "no front matter: the folder's name and the first paragraph are used"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill, as described in its ``SKILL.md``."""

    name: str
    description: str
    """On one line, with invisible characters escaped."""
    folder: str
    """Relative to the workspace; for one of the user's own skills, absolute and without links."""
    from_user: bool
    fields: Mapping[str, Field]
    """All front matter fields, including unknown keys. They grant no permissions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skills:
    """The found skills, and notices for the user."""

    skills: tuple[Skill, ...] = ()
    catalog: str = ""
    """The skill list for the system prompt, or empty if there are none."""
    tools: Toolset = field(default_factory=Toolset)
    """The tool for loading a skill, or empty if there are none."""
    untrusted: tuple[Untrusted, ...] = ()
    """Skills ignored because the user has not trusted their current content."""
    notices: tuple[Notice, ...] = ()


def find_skills(
    root: AnyPath | None = None,
    *,
    trusted: IsTrusted = trust_nothing,
    folders: Sequence[str] = (".agents/skills", ".claude/skills"),
    user: Sequence[AnyPath] = (),
) -> Skills:
    """Find the workspace's and the user's skills.

    If two skills have the same name, the workspace's is used before the user's, and an earlier
    folder's before a later one's.

    Args:
        root: The workspace, if there is one.
        trusted: Whether the user trusts this skill's content. Other skills in the workspace
            are ignored.
        folders: Workspace folders with skills.
        user: Folders with the user's own skills, such as ``~/.agents/skills``. They need no trust.
    """
    search = _SkillSearch()
    if root is not None:
        reader = FolderReader(os.path.realpath(root, strict=True).rstrip("/"))
        for path in folders:
            search.add(SkillSource(reader, path.strip("/"), trusted))
    for folder in user:
        reader = FolderReader(os.path.realpath(folder).rstrip("/"), follows_all=True)
        search.add(SkillSource(reader, "", None))
    return search.result()


class _LimitReached(NotRead):
    """A location's other skills are skipped. The message says why."""


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
        self._searched: set[str] = set()
        """Folders without links: two links to a folder lead to the same skills."""

    def add(self, location: SkillSource) -> None:
        budget = _SearchBudget()
        try:
            for source in self._sources_in(location, MAX_DEPTH, budget):
                self._add_source(source, budget)
        except Gone:
            return
        except NotRead as reason:
            self._notify(location, "skipped", str(reason))

    def result(self) -> Skills:
        skills_found = list(self._skills.items())
        for _, (_, source) in skills_found[MAX_SKILLS:]:
            self._notify(source, "skipped", f"more than {MAX_SKILLS} skills")
        offered = dict(sorted(skills_found[:MAX_SKILLS]))
        skills = tuple(skill for skill, _ in offered.values())
        return Skills(
            skills=skills,
            catalog=_format_catalog(skills),
            tools=skill_tool({name: source for name, (_, source) in offered.items()}),
            untrusted=tuple(self._untrusted),
            notices=tuple(self._notices),
        )

    def _sources_in(
        self, source: SkillSource, depth: int, budget: _SearchBudget
    ) -> Iterator[SkillSource]:
        """Yield the skill folders. Their subfolders are not searched."""
        reader, path, _ = source
        if (real := reader.locate(path)) in self._searched:
            return
        if depth < 0:
            raise NotRead(f"more than {MAX_DEPTH} folders deep")
        self._searched.add(real)
        entries = reader.list_folder(path)
        if any(entry.name == SKILL_FILE for entry in entries):
            yield source
            return
        for entry in entries:
            if entry.kind in ("folder", "outside") and entry.name not in SKIPPED_FOLDERS:
                if not budget.folders:
                    raise _LimitReached(f"more than {MAX_FOLDERS:,} folders; the rest is ignored")
                budget.folders -= 1
                inner = source._replace(path=f"{path}/{entry.name}".lstrip("/"))
                yield from self._sources_in_subfolder(inner, depth - 1, budget)

    def _sources_in_subfolder(
        self, source: SkillSource, depth: int, budget: _SearchBudget
    ) -> Iterator[SkillSource]:
        try:
            yield from self._sources_in(source, depth, budget)
        except _LimitReached:
            raise
        except NotRead as reason:
            self._notify(source, "skipped", str(reason))

    def _add_source(self, source: SkillSource, budget: _SearchBudget) -> None:
        if not budget.skills:
            raise _LimitReached(f"more than {MAX_SKILLS} skills; the rest is ignored")
        budget.skills -= 1
        try:
            folder = read_skill_folder(
                source.reader, source.path, max_bytes=min(budget.size, MAX_FOLDER_BYTES)
            )
            budget.spend(folder.size)
            self._add_if_trusted(source, folder)
        except NotRead as reason:
            if isinstance(reason, TooLarge):
                budget.spend(MAX_FOLDER_BYTES)  # read so far
            self._notify(source, "skipped", str(reason))

    def _add_if_trusted(self, source: SkillSource, folder: SkillFolder) -> None:
        if source.trusted and not is_trusted(source.trusted, source.path, folder.record):
            self._untrusted.append(Untrusted(source.path, folder.record))
            self._notify(source, "untrusted", NOT_TRUSTED)
            return
        text = decode_text(folder.skill)
        skill = self._make_skill(source, split_skill(text))
        if hidden := list_unseen(text.replace("\r\n", "\n")):
            self._notify(source, "invisible", f"contains invisible characters: {hidden}")
        if has_tags(text):
            self._notify(source, "escaped", HAS_TAGS)
        if skill.name in self._skills:
            first = self._skills[skill.name][0]
            where = to_one_line(first.folder, MAX_PATH_CHARS)
            why = f"the skill {skill.name!r} in {where!r} is used instead"
            self._notify(source, "shadowed", why)
        else:
            self._skills[skill.name] = (skill, source)

    def _make_skill(self, source: SkillSource, text: SkillText) -> Skill:
        """Create a skill from its ``SKILL.md``. Raises NotRead if it cannot be used."""
        fields, problems = _read_frontmatter(text.head)
        for problem in filter(None, (text.problem, *problems)):
            self._notify(source, "lenient", to_one_line(problem, MAX_PATH_CHARS))
        if _text(fields.get("disable-model-invocation")).lower() == "true":
            raise NotRead("disable-model-invocation is true")
        description = self._choose_description(source, text, _text(fields.get("description")))
        name = _text(fields.get("name")) if text.head else _folder_name(source)
        return Skill(
            name=self._choose_name(source, name),
            description=to_one_line(description, MAX_DESCRIPTION_CHARS),
            folder=source.folder,
            from_user=source.trusted is None,
            fields=fields,
        )

    def _choose_description(self, source: SkillSource, text: SkillText, given: str) -> str:
        description = given or first_paragraph(text.body)
        if not description:
            raise NotRead("the description is missing")
        if not given:
            why = "the description is missing; the first paragraph is used"
            self._notify(source, "lenient", why if text.head else _NO_HEAD)
        elif len(given) > MAX_DESCRIPTION_CHARS:
            why = f"the description is truncated to {MAX_DESCRIPTION_CHARS:,} characters"
            self._notify(source, "lenient", why)
        return description

    def _choose_name(self, source: SkillSource, given: str) -> str:
        folder = _folder_name(source)
        name = to_one_line(given or folder, MAX_NAME_CHARS)
        if given != folder:
            differs = f"the name {name!r} differs from the folder's name"
            why = differs if given else "the name is missing; the folder's name is used"
            self._notify(source, "lenient", why)
        if name != given and given:
            why = f"the name has more than {MAX_NAME_CHARS} characters, or invisible ones"
            self._notify(source, "lenient", why)
        return name

    def _notify(self, source: SkillSource, kind: NoticeKind, message: str) -> None:
        path = source.path
        if source.trusted is None:
            path = f"{source.reader.root}/{path}".rstrip("/")
        self._notices.append(Notice(to_one_line(path, MAX_PATH_CHARS), kind, message))


def _folder_name(source: SkillSource) -> str:
    return f"{source.reader.root}/{source.path}".rstrip("/").rpartition("/")[2]


def _read_frontmatter(head: str) -> tuple[Mapping[str, Field], tuple[str, ...]]:
    if not head:
        return {}, ()
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
