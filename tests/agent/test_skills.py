"""Skills: the exact text of the catalog and the tool, format errors, limits, and trust."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Call, Executor, FailureKind, Result, Toolset
from handrail.agent import Notice, Skill, Skills, Untrusted, find_skills
from handrail.policy import Trust, digest

PLAIN = "---\nname: {0}\ndescription: About {0}.\n---\nDo {0}.\n"


def everything(path: str, content: bytes) -> bool:
    return True


def put(file: Path, content: str | bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def skill(place: Path, name: str, content: str | bytes = "") -> Path:
    return put(place / name / "SKILL.md", content or PLAIN.format(name)).parent


def load(skills: Skills, name: str, **args: object) -> Result:
    return Executor(skills.tools).run_sync(Call("skill", {"name": name, **args}, "c1"))


def notices(skills: Skills, home: Path) -> list[str]:
    lines = [f"{one.path}: {one.kind}: {one.message}" for one in skills.notices]
    return [one.replace(str(home), "~") for one in lines]


def fields(root: Path, head: str) -> tuple[dict[str, object], list[str]]:
    """The fields of some lines of front matter, and the notices about them."""
    skill(root, "s", f"---\nname: s\ndescription: d\n{head}\n---\n")
    skills = find_skills(user=[root])
    read = {
        key: dict(value) if hasattr(value, "items") else value
        for key, value in skills.skills[0].fields.items()
        if key not in ("name", "description")
    }
    return read, [one.message for one in skills.notices if one.kind == "lenient"]


# What a model sees


def test_the_text_and_tool_for_a_model(tmp_path: Path) -> None:
    place = tmp_path / ".agents/skills"
    forms = skill(
        place,
        "pdf-forms",
        "---\nname: pdf-forms\ndescription: Fill in PDF forms.\nallowed-tools: Bash(git:*) Read\n"
        "x-own: yes\n---\n\n# Forms\n\nRead references/fields.md.\n",
    )
    put(forms / "references/fields.md", "# Fields\r\nName them.\r\n")
    put(forms / "scripts/fill.py", "print()\n")
    put(forms / "scripts/__pycache__/fill.pyc", b"\0")
    skill(place, "notes")
    skills = find_skills(tmp_path, trusted=everything)
    [spec] = skills.tools.specs

    assert skills.notices == ()
    assert skills.skills[1] == Skill(
        name="pdf-forms",
        description="Fill in PDF forms.",
        folder=".agents/skills/pdf-forms",
        from_user=False,
        fields=MappingProxyType(
            {
                "name": "pdf-forms",
                "description": "Fill in PDF forms.",
                "allowed-tools": "Bash(git:*) Read",
                "x-own": "yes",
            }
        ),
    )
    assert skills.catalog == snapshot(
        """\
Skills are instructions for specific kinds of tasks. If a task matches one of these descriptions, call the skill tool with its name before you start.

<skills>
- notes: About notes.
- pdf-forms: Fill in PDF forms.
</skills>\
"""
    )
    assert (spec.name, spec.description, spec.input_schema, spec.effect.name) == snapshot(
        (
            "skill",
            """\
Load a skill: instructions for a specific kind of task.

Call it before you start a task that matches a skill's description. Load each skill once.\
""",
            {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "enum": ["notes", "pdf-forms"],
                        "description": "Name of the skill.",
                    },
                    "file": {
                        "type": "string",
                        "default": "",
                        "description": "A file that the skill lists, to read it. Omit to load the instructions.",
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "READ",
        )
    )
    assert load(skills, "pdf-forms").text == snapshot(
        """\
<skill name="pdf-forms" folder=".agents/skills/pdf-forms">
# Forms

Read references/fields.md.
</skill>
Files of this skill. To read one, call skill with "file". To run one, write the folder before its name:
- references/fields.md
- scripts/fill.py\
"""
    )
    assert load(skills, "pdf-forms", file="references/fields.md").text == snapshot(
        """\
<skill-file name="pdf-forms" file="references/fields.md">
# Fields
Name them.
</skill-file>\
"""
    )
    assert load(skills, "notes").text == snapshot(
        """\
<skill name="notes" folder=".agents/skills/notes">
Do notes.
</skill>\
"""
    )


def test_the_failures_for_a_model(tmp_path: Path) -> None:
    folder = skill(tmp_path, "a")
    put(folder / "big", b"x" * 300_000)
    put(folder / "picture", b"\x89PNG\0")
    skill(tmp_path, "b")
    skills = find_skills(user=[tmp_path])
    results = [
        load(skills, "c"),
        load(skills, "a", file="../b/SKILL.md"),
        load(skills, "b", file="x"),
        load(skills, "a", file="big"),
        load(skills, "a", file="picture"),
    ]
    shutil.rmtree(tmp_path / "b")
    results.append(load(skills, "b"))
    put(tmp_path / "b/SKILL.md", b"\xff")
    results.append(load(skills, "b"))

    assert [(one.failure and one.failure.kind, one.text) for one in results] == snapshot(
        [
            (
                FailureKind.BAD_ARGS,
                """\
Not run: invalid arguments.
- name: expected 'a' or 'b', got the string "c"
Fix these and call again.\
""",
            ),
            (
                FailureKind.FAILED,
                "The skill 'a' has no file '../b/SKILL.md'. Available files: 'big', 'picture'.",
            ),
            (FailureKind.FAILED, "The skill 'b' has no file 'x'. Available files: none."),
            (
                FailureKind.FAILED,
                "Cannot load the file 'big' of the skill 'a': larger than 262,144 bytes. Continue without it, and tell the user.",
            ),
            (
                FailureKind.FAILED,
                "Cannot load the file 'picture' of the skill 'a': binary file. Continue without it, and tell the user.",
            ),
            (
                FailureKind.FAILED,
                "Cannot load the skill 'b': not found. Continue without it, and tell the user.",
            ),
            (
                FailureKind.FAILED,
                "Cannot load the skill 'b': not valid UTF-8. Continue without it, and tell the user.",
            ),
        ]
    )


def test_without_skills_there_is_no_text_and_no_tool(tmp_path: Path) -> None:
    put(tmp_path / "file", "")

    assert find_skills(tmp_path, trusted=everything, user=[tmp_path / "gone"]) == Skills()
    assert find_skills() == Skills(tools=Toolset())
    assert notices(find_skills(user=[tmp_path / "file"]), tmp_path) == snapshot(
        ["~/file: skipped: cannot be opened: not a directory"]
    )


def test_a_missing_workspace_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_skills(tmp_path / "gone")


def test_a_call_declares_what_it_touches(tmp_path: Path) -> None:
    skill(tmp_path / "work/.agents/skills", "a")
    skill(tmp_path / "home", "b")
    skills = find_skills(tmp_path / "work", trusted=everything, user=[tmp_path / "home"])
    executor = Executor(skills.tools)

    def touched(**args: str) -> list[str]:
        return list(map(str, executor.explain(Call("skill", args, "c1")).accesses))

    assert [touched(name="a"), touched(name="a", file="x/y"), touched(name="b", file="z")] == [
        ["read file:.agents/skills/a", "read file:.agents/skills/a/SKILL.md"],
        ["read file:.agents/skills/a", "read file:.agents/skills/a/x/y"],
        ["read skill:b"],
    ]


def test_a_location_can_itself_be_a_skill(tmp_path: Path) -> None:
    skills = find_skills(user=[skill(tmp_path, "a")])

    assert [one.name for one in skills.skills] == ["a"]
    assert load(skills, "a").text == f'<skill name="a" folder="{tmp_path}/a">\nDo a.\n</skill>'


# Trust


def test_nothing_of_a_workspace_reaches_a_model_without_trust(tmp_path: Path) -> None:
    folder = skill(tmp_path / ".agents/skills", "evil")
    put(folder / "run.sh", "rm -rf /\n")
    (folder / "link").symlink_to("/etc")

    skills = find_skills(tmp_path)
    assert skills == Skills(
        untrusted=(
            Untrusted(
                ".agents/skills/evil",
                b'- "link"\n'
                + digest(b"rm -rf /\n").encode()
                + b' "run.sh"\n\n'
                + PLAIN.format("evil").encode(),
            ),
        ),
        notices=(
            Notice(
                ".agents/skills/evil",
                "untrusted",
                "ignored: not trusted, or changed since you trusted it",
            ),
        ),
    )


def test_an_untrusted_skill_shadows_nothing(tmp_path: Path) -> None:
    skill(tmp_path / "work/.agents/skills", "a")
    skill(tmp_path / "home", "a", "---\nname: a\ndescription: Mine.\n---\n")

    skills = find_skills(tmp_path / "work", user=[tmp_path / "home"])
    assert [one.description for one in skills.skills] == ["Mine."]


def test_a_change_of_any_file_revokes_trust(tmp_path: Path) -> None:
    root = tmp_path / "work"
    folder = skill(root / ".agents/skills", "a")
    script = put(folder / "scripts/run.sh", "true\n")
    trust = Trust(tmp_path / "home/trust.json")

    def trusted(path: str, content: bytes) -> bool:
        return trust.has(root / path, digest(content))

    def grant() -> None:
        for one in find_skills(root, trusted=trusted).untrusted:
            trust.grant(root / one.path, digest(one.content))

    grant()
    skills = find_skills(root, trusted=trusted)
    texts = [load(skills, "a").text]
    script.write_text("rm -rf ~\n", encoding="utf-8")
    refused = load(skills, "a")
    texts += [refused.text, load(skills, "a", file="scripts/run.sh").text]
    assert find_skills(root, trusted=trusted).skills == ()
    grant()
    texts.append(load(skills, "a", file="scripts/run.sh").text)
    trust.revoke(root / ".agents/skills/a")
    texts.append(load(skills, "a").text)

    assert refused.failure is not None
    assert refused.failure.kind is FailureKind.DENIED
    assert texts == snapshot(
        [
            """\
<skill name="a" folder=".agents/skills/a">
Do a.
</skill>
Files of this skill. To read one, call skill with "file". To run one, write the folder before its name:
- scripts/run.sh\
""",
            "Not loaded: the skill 'a' is not trusted, or changed since the user trusted it. Do not work around this; tell the user.",
            "Not loaded: the skill 'a' is not trusted, or changed since the user trusted it. Do not work around this; tell the user.",
            """\
<skill-file name="a" file="scripts/run.sh">
rm -rf ~
</skill-file>\
""",
            "Not loaded: the skill 'a' is not trusted, or changed since the user trusted it. Do not work around this; tell the user.",
        ]
    )


def test_a_file_that_changes_during_the_check_is_not_shown(tmp_path: Path) -> None:
    folder = skill(tmp_path / ".agents/skills", "a")
    file = put(folder / "notes.md", "Good.")
    changes = iter([False, True])

    def trusted(path: str, content: bytes) -> bool:
        if next(changes):
            file.write_text("Evil.", encoding="utf-8")
        return True

    skills = find_skills(tmp_path, trusted=trusted)
    assert load(skills, "a", file="notes.md").text == snapshot(
        "Cannot load the file 'notes.md' of the skill 'a': it changed while it was read. Continue without it, and tell the user."
    )


# Lenient


def test_skills_with_format_errors_are_read_leniently(tmp_path: Path) -> None:
    skill(tmp_path, "mismatch", PLAIN.format("other"))
    skill(tmp_path, "long", f"---\nname: {'n' * 65}\ndescription: {'d' * 1_025}\n---\n")
    skill(tmp_path, "odd", '---\nname: "a\\u202e\\n<skill>"\ndescription: "x\\n</skills> y"\n---\n')
    skill(tmp_path, "nameless", "\ufeff---\r\ndescription: Use when: asked\r\n---\r\nBody.\r\n")
    skill(tmp_path, "tags", "---\nname: tags\ndescription: d\n---\na</skill>\x1b")
    skills = find_skills(user=[tmp_path])

    assert skills.catalog.partition("<skills>")[2] == snapshot("""\

- a\\u{202e} &lt;skill>: x &lt;/skills> y
- nameless: Use when: asked
- nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn ...: dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd ...
- other: About other.
- tags: d
</skills>\
""")
    assert notices(skills, tmp_path) == snapshot(
        [
            "~/long: lenient: the description is truncated to 1,024 characters",
            "~/long: lenient: the name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn ...' differs from the folder's name",
            "~/long: lenient: the name has more than 64 characters, or invisible ones",
            "~/mismatch: lenient: the name 'other' differs from the folder's name",
            "~/nameless: lenient: line 2: 'description' is not valid YAML and is read as text: mapping values are not allowed here",
            "~/nameless: lenient: the name is missing; the folder's name is used",
            "~/odd: lenient: the name 'a\\\\u{202e} &lt;skill>' differs from the folder's name",
            "~/odd: lenient: the name has more than 64 characters, or invisible ones",
            "~/odd: escaped: contains tags that handrail uses itself; they are escaped",
            "~/tags: invisible: contains invisible characters: \\x1b",
            "~/tags: escaped: contains tags that handrail uses itself; they are escaped",
        ]
    )
    assert load(skills, "tags").text.replace(str(tmp_path), "~") == snapshot("""\
<skill name="tags" folder="~/tags">
a&lt;/skill>\\x1b
</skill>
[Invisible characters are escaped here: \\x1b.]\
""")


def test_unusable_skills_are_skipped(tmp_path: Path) -> None:
    skill(tmp_path, "no-description", "---\nname: no-description\ndescription:\n---\n")
    skill(tmp_path, "a-list", "---\nname: a-list\ndescription: [a, b]\n---\n")
    skill(tmp_path, "empty", b"\n")
    skill(tmp_path, "long-head", f"---\ndescription: d\nx: {'x' * 65_536}\n---\n")
    skill(tmp_path, "binary", b"---\0")
    skill(tmp_path, "latin", b"caf\xe9")
    skill(tmp_path, "huge", b"x" * 262_145)
    skill(
        tmp_path,
        "manual",
        "---\nname: manual\ndescription: d\ndisable-model-invocation: true\n---\n",
    )
    (tmp_path / "folder/SKILL.md").mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/SKILL.md").symlink_to("../gone/SKILL.md")

    skills = find_skills(user=[tmp_path])
    assert (skills.skills, notices(skills, tmp_path)) == snapshot(
        (
            (),
            [
                "~/a-list: skipped: the description is missing",
                "~/binary: skipped: binary file",
                "~/empty: skipped: the description is missing",
                "~/folder: skipped: not a regular file",
                "~/huge: skipped: larger than 262,144 bytes",
                "~/latin: skipped: not valid UTF-8",
                "~/linked: skipped: the link leads to nothing",
                "~/long-head: skipped: the front matter has more than 65,536 characters",
                "~/manual: skipped: disable-model-invocation is true",
                "~/no-description: skipped: the description is missing",
            ],
        )
    )


def test_the_workspace_comes_before_the_user_and_shadowing_is_reported(tmp_path: Path) -> None:
    root = tmp_path / "work"
    skill(root / ".agents/skills", "a")
    skill(root / ".claude/skills", "a")
    skill(tmp_path / "home", "a")
    skill(tmp_path / "home", "b")
    skill(tmp_path / "more", "b")

    skills = find_skills(root, trusted=everything, user=[tmp_path / "home", tmp_path / "more"])
    assert [(one.name, one.folder, one.from_user) for one in skills.skills] == [
        ("a", ".agents/skills/a", False),
        ("b", f"{tmp_path}/home/b", True),
    ]
    assert notices(skills, tmp_path) == snapshot(
        [
            ".claude/skills/a: shadowed: the skill 'a' in '.agents/skills/a' is used instead",
            "~/home/a: shadowed: the skill 'a' in '.agents/skills/a' is used instead",
            "~/more/b: shadowed: the skill 'b' in '~/home/b' is used instead",
        ]
    )


# Bounds


def test_no_link_of_a_workspace_leads_outside_and_loops_end(tmp_path: Path) -> None:
    secret = skill(tmp_path / "outside", "secret")
    place = tmp_path / "work/.agents/skills"
    skill(place / "group", "a")
    (place / "out").symlink_to(secret)
    (place / "group/round").symlink_to("..")
    os.mkfifo(place / "pipe")
    (tmp_path / "work/.claude").mkdir()
    (tmp_path / "work/.claude/skills").symlink_to(tmp_path / "outside")

    skills = find_skills(tmp_path / "work", trusted=everything)
    assert [one.name for one in skills.skills] == ["a"]
    assert notices(skills, tmp_path) == snapshot(
        [
            ".agents/skills/out: skipped: the link leads outside the workspace",
            ".claude/skills: skipped: the link leads outside the workspace",
        ]
    )


def test_a_skill_can_be_four_folders_deep(tmp_path: Path) -> None:
    skill(tmp_path / "1/2/3", "four")
    skill(tmp_path / "1/2/3/x", "five")
    skill(tmp_path / "node_modules", "package")

    skills = find_skills(user=[tmp_path])
    assert ([one.name for one in skills.skills], notices(skills, tmp_path)) == snapshot(
        (["four"], ["~/1/2/3/x/five: skipped: more than 4 folders deep"])
    )


def test_the_number_of_searched_folders_is_limited(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    for number in range(10_000):
        (tmp_path / f"group/{number:04}").mkdir()
    skill(tmp_path / "group", "0000")
    skill(tmp_path / "group", "1999")
    skill(tmp_path, "other")

    skills = find_skills(user=[tmp_path])
    assert ([one.name for one in skills.skills], notices(skills, tmp_path)) == snapshot(
        (["0000"], ["~: skipped: more than 2,000 folders; the rest is ignored"])
    )


def test_a_folder_with_too_many_entries_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    for number in range(10_001):
        (tmp_path / f"full/{number}").touch()
    skill(tmp_path, "a")

    skills = find_skills(user=[tmp_path])
    assert ([one.name for one in skills.skills], notices(skills, tmp_path)) == snapshot(
        (["a"], ["~/full: skipped: the folder has more than 10,000 entries"])
    )


def test_the_number_of_skills_is_limited(tmp_path: Path) -> None:
    for place in ("one", "two"):
        for number in range(251):
            skill(tmp_path / place, f"{place}-{number:03}")

    skills = find_skills(user=[tmp_path / "one", tmp_path / "two"])
    offered = [one.name for one in skills.skills]
    assert offered == [f"one-{number:03}" for number in range(250)]
    assert [notices(skills, tmp_path)[at] for at in (0, 1, 2, -1)] == snapshot(
        [
            "~/one: skipped: more than 250 skills; the rest is ignored",
            "~/two: skipped: more than 250 skills; the rest is ignored",
            "~/two/two-000: skipped: more than 250 skills",
            "~/two/two-249: skipped: more than 250 skills",
        ]
    )
    assert len(skills.catalog) < 40_000


def test_a_long_catalog_is_truncated_evenly(tmp_path: Path) -> None:
    for number in range(100):
        skill(tmp_path, f"s{number}", f"---\nname: s{number}\ndescription: {'d' * 1000}\n---\n")

    skills = find_skills(user=[tmp_path])
    assert {len(line) for line in skills.catalog.splitlines()[3:-1]} == {326, 327}


def test_the_size_of_a_skill_is_limited(tmp_path: Path) -> None:
    many = skill(tmp_path, "many")
    for number in range(501):
        put(many / f"{number}", "")
    large = skill(tmp_path, "large")
    put(large / "a", b"x" * (9 << 20))
    put(large / "b", b"x" * (8 << 20))
    put(skill(tmp_path, "deep") / "1/2/3/4/5/6/7/file", "")

    skills = find_skills(user=[tmp_path])
    assert (skills.skills, notices(skills, tmp_path)) == snapshot(
        (
            (),
            [
                "~/deep: skipped: folders are nested more than 6 levels deep",
                "~/large: skipped: more than 500 files or 16,777,216 bytes",
                "~/many: skipped: more than 500 files or 16,777,216 bytes",
            ],
        )
    )


def test_the_size_of_a_location_is_limited(tmp_path: Path) -> None:
    for number in range(20):
        folder = skill(tmp_path, f"s{number:02}")
        with (folder / "asset").open("wb") as asset:
            asset.truncate((17 if number == 1 else 15) << 20)

    skills = find_skills(user=[tmp_path])
    assert ([one.name for one in skills.skills], notices(skills, tmp_path)) == snapshot(
        (
            [
                "s00",
                "s02",
                "s03",
                "s04",
                "s05",
                "s06",
                "s07",
                "s08",
                "s09",
                "s10",
                "s11",
                "s12",
                "s13",
                "s14",
                "s15",
                "s16",
                "s17",
            ],
            [
                "~/s01: skipped: larger than 16,777,216 bytes",
                "~: skipped: its skills are larger than 268,435,456 bytes; the rest is ignored",
            ],
        )
    )


def test_a_skill_that_disappears_during_the_search_is_skipped(tmp_path: Path) -> None:
    place = tmp_path / ".agents/skills"
    for name in ("a", "b", "c"):
        skill(place, name)
    put(place / "a/file", "")

    def trusted(path: str, content: bytes) -> bool:
        shutil.rmtree(place / "b", ignore_errors=True)
        return True

    skills = find_skills(tmp_path, trusted=trusted)
    assert ([one.name for one in skills.skills], notices(skills, tmp_path)) == (
        ["a", "c"],
        [".agents/skills/b: skipped: not found"],
    )


def test_file_names_have_no_invisible_characters_or_line_breaks(tmp_path: Path) -> None:
    folder = skill(tmp_path, "a")
    put(folder / "x\n- y", "one")
    put(folder / b"\xff\x1b".decode("utf-8", "surrogateescape"), "two")
    skills = find_skills(user=[tmp_path])

    assert load(skills, "a").text.partition("</skill>\n")[2] == snapshot("""\
Files of this skill. To read one, call skill with "file". To run one, write the folder before its name:
- x - y
- \\xff\\x1b\
""")
    assert load(skills, "a", file="\\xff\\x1b").text.splitlines()[1] == "two"


# Frontmatter


@pytest.mark.parametrize(
    ("head", "read"),
    [
        ("a: b", {"a": "b"}),
        ("a:", {"a": ""}),
        ("a: # nothing", {"a": ""}),
        ("# all of it\n\na: b # part of it", {"a": "b"}),
        ("a: 1.0\nb: true\nc: ~", {"a": "1.0", "b": "true", "c": "~"}),
        ("a: one\n  two\n\n  three", {"a": "one two\nthree"}),
        ("a:\n  one\n  two", {"a": "one two"}),
        ('"a": "b: \\"c\\" \\u00e9\\n\\x41\\/" # d', {"a": 'b: "c" é\nA/'}),
        ("'a': 'it''s: # here'", {"a": "it's: # here"}),
        ('a: "one\n  two"', {"a": "one two"}),
        ('a: "\\ud83d\\ude00 \\ud83d \\U0001f600"', {"a": "😀 \ufffd 😀"}),
        ("a: |\n  one\n    two\n\n  three\n", {"a": "one\n  two\n\nthree\n"}),
        ("a: |2-\n    one\n  two", {"a": "  one\ntwo"}),
        ("a: >- # folded\n  one\n  two\n\n  three", {"a": "one two\nthree"}),
        ("a: |\nb: c", {"a": "", "b": "c"}),
        (
            "a:\n  - one\n  - 'two'\n  -\n    three\n  # none\n  - four\n    five",
            {"a": ("one", "two", "three", "four five")},
        ),
        ("a:\n- one\n- two\nb: c", {"a": ("one", "two"), "b": "c"}),
        ("a: [one, 'two, three', \"four\", ]", {"a": ("one", "two, three", "four")}),
        ("a: [] # none", {"a": ()}),
        ("a: [' # one', b]", {"a": (" # one", "b")}),
        ("a: {b: c, d: 'e, f'}", {"a": {"b": "c", "d": "e, f"}}),
        ("a: {}", {"a": {}}),
        ("a:\n\n  b: c\n  d: 'e'\n  f: g\n    h", {"a": {"b": "c", "d": "e", "f": "g h"}}),
        ("a:\n  http://example.org", {"a": "http://example.org"}),
        ("a.b-c: d", {"a.b-c": "d"}),
        ("a b: c", {"a b": "c"}),
        ("? a", {"a": ""}),
        ("a: {b}", {"a": {"b": ""}}),
        ("a: [b, [c, {d: e}]]", {"a": ("b", ("c", {"d": "e"}))}),
        ("a:\n  b:\n    c: d", {"a": {"b": {"c": "d"}}}),
        ("a: [[[[[[[b]]]]]]]", {"a": ((((((("b",),),),),),),)}),
        ("a:\n  - b: c\n    d: e\n  - f", {"a": ({"b": "c", "d": "e"}, "f")}),
        ("a:\n  b: |\n    c", {"a": {"b": "c\n"}}),
        (
            "<<: {a: b}\nc: 2026-01-01\nd: 0x1f\ne: no",
            {"<<": {"a": "b"}, "c": "2026-01-01", "d": "0x1f", "e": "no"},
        ),
    ],
)
def test_frontmatter_is_read_as_text_lists_and_maps(
    tmp_path: Path, head: str, read: dict[str, object]
) -> None:
    assert fields(tmp_path, head) == (read, [])


TEXT = "line 4: 'a' is not valid YAML and is read as text: "
DEEP = "[" * 8 + "]" * 8


@pytest.mark.parametrize(
    ("head", "read", "problem"),
    [
        ("a: Use when: asked # b", {"a": "Use when: asked"}, TEXT + "mapping values are not allowed here"),
        ("a: Use when:\n  asked\n# b\nc: d", {"a": "Use when: asked", "c": "d"}, TEXT + "mapping values are not allowed here"),
        ("a:b", {"a": "b"}, TEXT + "expected 'key: value'"),
        ("a: b\na: c", {"a": "b"}, "line 5: duplicate key 'a'; the first one is used"),
        ("a: b\n--- c", {"a": "b"}, "line 5: expected 'key: value'"),
        ("just words", {}, "line 4: expected 'key: value'"),
        ('a: "open', {"a": '"open'}, TEXT + "found unexpected end of stream"),
        ("a: 'one' two", {"a": "'one' two"}, TEXT + "expected <block end>, but found '<scalar>'"),
        ("a: &x b", {"a": "&x b"}, TEXT + "anchors and aliases are not allowed"),
        ("a: *x", {"a": "*x"}, TEXT + "anchors and aliases are not allowed"),
        ("a: [&x b, *x]", {"a": "[&x b, *x]"}, TEXT + "anchors and aliases are not allowed"),
        ("a: {&x b: c}", {"a": "{&x b: c}"}, TEXT + "anchors and aliases are not allowed"),
        ("a: !!python/object x", {"a": "!!python/object x"}, TEXT + "tags are not allowed"),
        ("a: !x {}", {"a": "!x {}"}, TEXT + "tags are not allowed"),
        ("a: {? [b] : c}", {"a": "{? [b] : c}"}, TEXT + "a key that is not text is not allowed"),
        ("a:\n  b: c\n  b: d", {"a": "b: c b: d"}, TEXT + "duplicate key 'b'"),
        (f"a: {DEEP}", {"a": DEEP}, TEXT + "more than 8 levels are not allowed"),
        ("a: [b", {"a": "[b"}, TEXT + "expected ',' or ']', but got '<stream end>'"),
        ("a: [b] c", {"a": "[b] c"}, TEXT + "expected <block end>, but found '<scalar>'"),
        ("a: `b`", {"a": "`b`"}, TEXT + "found character '`' that cannot start any token"),
        ('a: "\\UFFFFFFFF"', {"a": '"\\UFFFFFFFF"'}, TEXT + "it contains a character that is not allowed"),
        ("a: \x1b", {"a": "\x1b"}, TEXT + "it contains a character that is not allowed"),
    ],
)  # fmt: skip
def test_invalid_yaml_is_read_as_text_and_reported(
    tmp_path: Path, head: str, read: dict[str, object], problem: str
) -> None:
    assert fields(tmp_path, head) == (read, [problem])


def test_front_matter_that_is_a_list_has_no_fields(tmp_path: Path) -> None:
    skill(tmp_path, "s", "\n---\n- name: s\n- description: d\n---\n")

    assert notices(find_skills(user=[tmp_path]), tmp_path) == [
        "~/s: lenient: line 2: expected 'key: value'",
        "~/s: skipped: the description is missing",
    ]


def test_an_indented_line_before_all_keys_is_reported(tmp_path: Path) -> None:
    skill(tmp_path, "s", "---\n\n  x: y\nname: s\ndescription: d\n---\n")

    assert notices(find_skills(user=[tmp_path]), tmp_path) == [
        "~/s: lenient: line 4: expected '<document start>', but found '<block mapping start>'"
    ]


def test_empty_front_matter_has_no_fields(tmp_path: Path) -> None:
    skill(tmp_path, "s", "---\n# nothing\n---\n")

    assert notices(find_skills(user=[tmp_path]), tmp_path) == [
        "~/s: skipped: the description is missing",
    ]


def test_the_number_of_keys_is_limited(tmp_path: Path) -> None:
    read, problems = fields(tmp_path, "\n".join(f"k{number}: v" for number in range(200)))

    assert (len(read), problems) == (98, ["more than 100 keys; the others are ignored"])


def test_the_number_of_problems_is_limited(tmp_path: Path) -> None:
    read, problems = fields(tmp_path, "\n".join(f"k{number}: &x" for number in range(200)))

    assert (len(read), len(problems), problems[0]) == (
        20,
        20,
        "line 4: 'k0' is not valid YAML and is read as text: anchors and aliases are not allowed",
    )


def test_without_pyyaml_the_error_names_the_extra(tmp_path: Path) -> None:
    skill(tmp_path, "s")
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from handrail.agent import find_skills\n"
        "print(find_skills().skills)\n"
        f"try: find_skills(user=[{str(tmp_path)!r}])\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )

    assert done.stdout == (
        "()\nHandrailError Skills need PyYAML, which is not installed. Run: pip install 'handrail[skills]'\n"
    )


def test_pyyaml_is_loaded_with_the_first_skill() -> None:
    code = "import sys, handrail.agent; handrail.agent.find_skills(); print('yaml' in sys.modules)"
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code], capture_output=True, check=True, encoding="utf-8"
    )

    assert done.stdout == "False\n"


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_.-]{0,9}", fullmatch=True), TEXTS | st.lists(TEXTS)
    )
)
def test_quoted_text_is_read_back(
    written: dict[str, str | list[str]],
) -> None:
    meant = {f"x-{key}": value for key, value in written.items()}
    head = "\n".join(f"{key}: {json.dumps(value)}" for key, value in meant.items())

    with TemporaryDirectory() as root:
        read, problems = fields(Path(root), head)
    assert problems == []
    assert read == {
        key: tuple(value) if isinstance(value, list) else value for key, value in meant.items()
    }


LINES = st.lists(
    st.sampled_from(
        "--- ... a: b: c - | > [ ] { } , \" ' \\ # & : \\u d800 x \t \n \r 🙂 name: description:".split(
            " "
        )
    )
    | st.text(max_size=3)
).map(" ".join)


@given(
    st.binary()
    | LINES.map(
        lambda text: f"---\nname: n\ndescription: d\n{text}\n---\n".encode("utf-8", "ignore")
    )
)
def test_no_file_breaks_the_search_or_the_prompt(content: bytes) -> None:
    with TemporaryDirectory() as root:
        skill(Path(root), "s", content)
        skills = find_skills(user=[root])
        shown = [load(skills, one.name).text for one in skills.skills]

    assert len(skills.catalog.splitlines()) == (5 if skills.skills else 0)
    assert [one.count("</skill>") for one in shown] == [1] * len(shown)
    assert {category(one) for one in "".join(shown)} & {"Cs", "Zl", "Zp"} == set()
    assert {one for one in "".join(shown) if category(one) == "Cc"} <= {"\n", "\t"}


@pytest.mark.parametrize(
    "line", [" " * 60_000, "a: [" + '\\"' * 30_000, "a: '" + "''" * 30_000, 'a: "' + '\\"' * 30_000, "a: " + "{" * 60_000, "a: " + "x: " * 20_000, "- " * 30_000, "a: [" + " ," * 25_000 + "[", "\n".join("a: b" for _ in range(12_000))]
)  # fmt: skip
def test_no_line_takes_long_to_read(tmp_path: Path, line: str) -> None:
    skill(tmp_path, "s", f"---\nname: s\ndescription: d\n{line}\n---\n")

    assert [one.name for one in find_skills(user=[tmp_path]).skills] == ["s"]
