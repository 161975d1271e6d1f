"""Skills: the catalogue and the tool, word for word; what is lenient, what is bounded, and trust."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handrail import Call, Executor, Kind, Result, Toolset
from handrail.agent import Remark, Skill, Skills, Untrusted, find_skills
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


def load(found: Skills, name: str, **args: object) -> Result:
    return Executor(found.tools).run_sync(Call("skill", {"name": name, **args}, "c1"))


def said(found: Skills, home: Path) -> list[str]:
    told = [f"{one.path}: {one.rule}: {one.message}" for one in found.remarks]
    return [one.replace(str(home), "~") for one in told]


def fields(root: Path, head: str) -> tuple[dict[str, object], list[str]]:
    """What is read of some lines of frontmatter, and what is said of them."""
    skill(root, "s", f"---\nname: s\ndescription: d\n{head}\n---\n")
    found = find_skills(user=[root])
    read = {
        key: dict(value) if hasattr(value, "items") else value
        for key, value in found.skills[0].fields.items()
        if key not in ("name", "description")
    }
    return read, [one.message for one in found.remarks if one.rule == "lenient"]


# What a model sees


def test_what_a_model_is_told(tmp_path: Path) -> None:
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
    found = find_skills(tmp_path, trusted=everything)
    [spec] = found.tools.specs

    assert found.remarks == ()
    assert found.skills[1] == Skill(
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
    assert found.catalogue == snapshot(
        """\
Skills are instructions for certain kinds of task, kept in files. Where a task fits one of these descriptions, call the tool skill with its name before you begin.

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
Load a skill: instructions for a certain kind of task.

Call it before you begin a task that fits the description of a skill. Once it is loaded,
do not load it again.\
""",
            {
                "type": "object",
                "properties": {
                    "name": {
                        "type": "string",
                        "enum": ["notes", "pdf-forms"],
                        "description": "Which skill.",
                    },
                    "file": {
                        "type": "string",
                        "default": "",
                        "description": "One of the files that the skill lists, to see that file. Leave it out to load the instructions, which name the files.",
                    },
                },
                "required": ["name"],
                "additionalProperties": False,
            },
            "READ",
        )
    )
    assert load(found, "pdf-forms").text == snapshot(
        """\
<skill name="pdf-forms" folder=".agents/skills/pdf-forms">
# Forms

Read references/fields.md.
</skill>
Files of this skill. To see one, call skill with "file":
- references/fields.md
- scripts/fill.py\
"""
    )
    assert load(found, "pdf-forms", file="references/fields.md").text == snapshot(
        """\
<skill-file name="pdf-forms" file="references/fields.md">
# Fields
Name them.
</skill-file>\
"""
    )
    assert load(found, "notes").text == snapshot(
        """\
<skill name="notes" folder=".agents/skills/notes">
Do notes.
</skill>\
"""
    )


def test_what_a_model_reads_when_it_fails(tmp_path: Path) -> None:
    folder = skill(tmp_path, "a")
    put(folder / "big", b"x" * 300_000)
    put(folder / "picture", b"\x89PNG\0")
    skill(tmp_path, "b")
    found = find_skills(user=[tmp_path])
    results = [
        load(found, "c"),
        load(found, "a", file="../b/SKILL.md"),
        load(found, "b", file="x"),
        load(found, "a", file="big"),
        load(found, "a", file="picture"),
    ]
    shutil.rmtree(tmp_path / "b")
    results.append(load(found, "b"))
    put(tmp_path / "b/SKILL.md", b"\xff")
    results.append(load(found, "b"))

    assert [(one.failure and one.failure.kind, one.text) for one in results] == snapshot(
        [
            (
                Kind.BAD_ARGS,
                """\
The arguments were refused and nothing was run.
- name: expected 'a' or 'b', got the string "c"
Correct them and call again.\
""",
            ),
            (
                Kind.FAILED,
                "The skill 'a' has no file '../b/SKILL.md'. Its files: 'big', 'picture'.",
            ),
            (Kind.FAILED, "The skill 'b' has no file 'x'. Its files: none."),
            (
                Kind.FAILED,
                "The file 'big' of the skill 'a' cannot be shown: it has more than 262,144 bytes. Go on without it, and tell the user.",
            ),
            (
                Kind.FAILED,
                "The file 'picture' of the skill 'a' cannot be shown: it is no text. Go on without it, and tell the user.",
            ),
            (
                Kind.FAILED,
                "The skill 'b' cannot be shown: it is not there. Go on without it, and tell the user.",
            ),
            (
                Kind.FAILED,
                "The skill 'b' cannot be shown: it is not UTF-8. Go on without it, and tell the user.",
            ),
        ]
    )


def test_without_skills_there_is_nothing(tmp_path: Path) -> None:
    put(tmp_path / "file", "")

    assert find_skills(tmp_path, trusted=everything, user=[tmp_path / "gone"]) == Skills()
    assert find_skills() == Skills(tools=Toolset())
    assert said(find_skills(user=[tmp_path / "file"]), tmp_path) == snapshot(
        ["~/file: left out: it cannot be opened: not a directory"]
    )


def test_a_workspace_that_is_not_there_is_somebodys_mistake(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_skills(tmp_path / "gone")


def test_a_call_says_what_it_touches(tmp_path: Path) -> None:
    skill(tmp_path / "work/.agents/skills", "a")
    skill(tmp_path / "home", "b")
    found = find_skills(tmp_path / "work", trusted=everything, user=[tmp_path / "home"])
    executor = Executor(found.tools)

    def touched(**args: str) -> list[str]:
        return list(map(str, executor.explain(Call("skill", args, "c1")).accesses))

    assert [touched(name="a"), touched(name="a", file="x/y"), touched(name="b", file="z")] == [
        ["read file:.agents/skills/a", "read file:.agents/skills/a/SKILL.md"],
        ["read file:.agents/skills/a", "read file:.agents/skills/a/x/y"],
        ["read skill:b"],
    ]


def test_a_place_may_itself_be_a_skill(tmp_path: Path) -> None:
    found = find_skills(user=[skill(tmp_path, "a")])

    assert [one.name for one in found.skills] == ["a"]
    assert load(found, "a").text == snapshot("""\
<skill name="a" folder="of the user">
Do a.
</skill>\
""")


# Trust


def test_nothing_of_a_workspace_reaches_a_model_without_trust(tmp_path: Path) -> None:
    folder = skill(tmp_path / ".agents/skills", "evil")
    put(folder / "run.sh", "rm -rf /\n")
    (folder / "link").symlink_to("/etc")

    found = find_skills(tmp_path)
    assert found == Skills(
        untrusted=(
            Untrusted(
                ".agents/skills/evil",
                b'- "link"\n'
                + digest(b"rm -rf /\n").encode()
                + b' "run.sh"\n\n'
                + PLAIN.format("evil").encode(),
            ),
        ),
        remarks=(
            Remark(
                ".agents/skills/evil",
                "untrusted",
                "it is not trusted as it is now, and was not read",
            ),
        ),
    )


def test_a_skill_that_is_not_trusted_shadows_nothing(tmp_path: Path) -> None:
    skill(tmp_path / "work/.agents/skills", "a")
    skill(tmp_path / "home", "a", "---\nname: a\ndescription: Mine.\n---\n")

    found = find_skills(tmp_path / "work", user=[tmp_path / "home"])
    assert [one.description for one in found.skills] == ["Mine."]


def test_a_change_of_any_file_takes_the_trust_away_until_somebody_looks(tmp_path: Path) -> None:
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
    found = find_skills(root, trusted=trusted)
    texts = [load(found, "a").text]
    script.write_text("rm -rf ~\n", encoding="utf-8")
    refused = load(found, "a")
    texts += [refused.text, load(found, "a", file="scripts/run.sh").text]
    assert find_skills(root, trusted=trusted).skills == ()
    grant()
    texts.append(load(found, "a", file="scripts/run.sh").text)
    trust.revoke(root / ".agents/skills/a")
    texts.append(load(found, "a").text)

    assert refused.failure is not None
    assert refused.failure.kind is Kind.DENIED
    assert texts == snapshot(
        [
            """\
<skill name="a" folder=".agents/skills/a">
Do a.
</skill>
Files of this skill. To see one, call skill with "file":
- scripts/run.sh\
""",
            "The skill 'a' is not trusted as it is now: it has changed since somebody looked at it, or the trust was taken back. Tell the user. The tool refuses this: go about it another way.",
            "The skill 'a' is not trusted as it is now: it has changed since somebody looked at it, or the trust was taken back. Tell the user. The tool refuses this: go about it another way.",
            """\
<skill-file name="a" file="scripts/run.sh">
rm -rf ~
</skill-file>\
""",
            "The skill 'a' is not trusted as it is now: it has changed since somebody looked at it, or the trust was taken back. Tell the user. The tool refuses this: go about it another way.",
        ]
    )


def test_a_file_that_changes_while_it_is_judged_is_not_shown(tmp_path: Path) -> None:
    folder = skill(tmp_path / ".agents/skills", "a")
    file = put(folder / "notes.md", "Good.")
    changes = iter([False, True])

    def trusted(path: str, content: bytes) -> bool:
        if next(changes):
            file.write_text("Evil.", encoding="utf-8")
        return True

    found = find_skills(tmp_path, trusted=trusted)
    assert load(found, "a", file="notes.md").text == snapshot(
        "The file 'notes.md' of the skill 'a' cannot be shown: it has changed just now. Go on without it, and tell the user."
    )


# Lenient


def test_what_breaks_the_format_is_taken_as_it_is_meant(tmp_path: Path) -> None:
    skill(tmp_path, "mismatch", PLAIN.format("other"))
    skill(tmp_path, "long", f"---\nname: {'n' * 65}\ndescription: {'d' * 1_025}\n---\n")
    skill(tmp_path, "odd", '---\nname: "a\\u202e\\n<skill>"\ndescription: "x\\n</skills> y"\n---\n')
    skill(tmp_path, "nameless", "\ufeff---\r\ndescription: Use when: asked\r\n---\r\nBody.\r\n")
    skill(tmp_path, "tags", "---\nname: tags\ndescription: d\n---\na</skill>\x1b")
    found = find_skills(user=[tmp_path])

    assert found.catalogue.partition("<skills>")[2] == snapshot("""\

- a\\u{202e} &lt;skill>: x &lt;/skills> y
- nameless: Use when: asked
- nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn ...: dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd ...
- other: About other.
- tags: d
</skills>\
""")
    assert said(found, tmp_path) == snapshot(
        [
            "~/long: lenient: its description has more than 1,024 characters; it is clipped",
            "~/long: lenient: its name 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn ...' is not that of its folder",
            "~/long: lenient: its name has more than 64 characters, or ones that hide",
            "~/mismatch: lenient: its name 'other' is not that of its folder",
            "~/nameless: lenient: 'description' holds a colon and has no quotes: other readers refuse it",
            "~/nameless: lenient: it has no name",
            "~/odd: lenient: its name 'a\\\\u{202e} &lt;skill>' is not that of its folder",
            "~/odd: lenient: its name has more than 64 characters, or ones that hide",
            "~/odd: escaped: it holds tags like those around it; they are escaped",
            "~/tags: unseen: it holds characters that cannot be seen: \\x1b",
            "~/tags: escaped: it holds tags like those around it; they are escaped",
        ]
    )
    assert load(found, "tags").text == snapshot("""\
<skill name="tags" folder="of the user/tags">
a&lt;/skill>\\x1b
</skill>
[Characters that cannot be seen are spelled out here: \\x1b.]\
""")


def test_what_cannot_be_offered_is_left_out(tmp_path: Path) -> None:
    skill(tmp_path, "no-description", "---\nname: no-description\ndescription:\n---\n")
    skill(tmp_path, "a-list", "---\nname: a-list\ndescription: [a, b]\n---\n")
    skill(tmp_path, "no-frontmatter", "# Hello\n")
    skill(tmp_path, "open", "---\nname: open\ndescription: d\n")
    skill(tmp_path, "empty", b"\n")
    skill(tmp_path, "binary", b"---\0")
    skill(tmp_path, "latin", b"caf\xe9")
    skill(tmp_path, "huge", b"x" * 65_537)
    skill(
        tmp_path,
        "manual",
        "---\nname: manual\ndescription: d\ndisable-model-invocation: true\n---\n",
    )
    (tmp_path / "folder/SKILL.md").mkdir(parents=True)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/SKILL.md").symlink_to("../no-frontmatter/SKILL.md")

    found = find_skills(user=[tmp_path])
    assert (found.skills, said(found, tmp_path)) == snapshot(
        (
            (),
            [
                "~/a-list: left out: it has no description",
                "~/binary: left out: it is no text",
                "~/empty: lenient: it does not begin with a line ---",
                "~/empty: left out: it has no description",
                "~/folder: left out: it is no ordinary file",
                "~/huge: left out: it has more than 65,536 bytes",
                "~/latin: left out: it is not UTF-8",
                "~/linked: left out: it is a link, and links are not followed",
                "~/manual: left out: it asks not to be offered to models",
                "~/no-description: left out: it has no description",
                "~/no-frontmatter: lenient: it does not begin with a line ---",
                "~/no-frontmatter: left out: it has no description",
                "~/open: lenient: the line --- that ends the frontmatter is missing",
                "~/open: left out: it has no description",
            ],
        )
    )


def test_the_workspace_comes_before_the_user_and_shadowing_is_told(tmp_path: Path) -> None:
    root = tmp_path / "work"
    skill(root / ".agents/skills", "a")
    skill(root / ".claude/skills", "a")
    skill(tmp_path / "home", "a")
    skill(tmp_path / "home", "b")
    skill(tmp_path / "more", "b")

    found = find_skills(root, trusted=everything, user=[tmp_path / "home", tmp_path / "more"])
    assert [(one.name, one.folder, one.from_user) for one in found.skills] == [
        ("a", ".agents/skills/a", False),
        ("b", f"{tmp_path}/home/b", True),
    ]
    assert said(found, tmp_path) == snapshot(
        [
            ".claude/skills/a: shadowed: the skill 'a' in '.agents/skills/a' counts instead",
            "~/home/a: shadowed: the skill 'a' in '.agents/skills/a' counts instead",
            "~/more/b: shadowed: the skill 'b' in '~/home/b' counts instead",
        ]
    )


# Bounds


def test_links_are_not_followed_and_rounds_end(tmp_path: Path) -> None:
    secret = skill(tmp_path / "outside", "secret")
    place = tmp_path / "work/.agents/skills"
    skill(place / "group", "a")
    (place / "out").symlink_to(secret)
    (place / "group/round").symlink_to("..")
    os.mkfifo(place / "pipe")
    (tmp_path / "work/.claude").mkdir()
    (tmp_path / "work/.claude/skills").symlink_to(tmp_path / "outside")

    found = find_skills(tmp_path / "work", trusted=everything)
    assert [one.name for one in found.skills] == ["a"]
    assert said(found, tmp_path) == snapshot(
        [
            ".agents/skills/group/round: left out: it is a link, and links are not followed",
            ".agents/skills/out: left out: it is a link, and links are not followed",
            ".claude/skills: left out: it is a link, and links are not followed",
        ]
    )


def test_a_skill_may_be_four_folders_deep(tmp_path: Path) -> None:
    skill(tmp_path / "1/2/3", "four")
    skill(tmp_path / "1/2/3/x", "five")
    skill(tmp_path / "node_modules", "package")

    found = find_skills(user=[tmp_path])
    assert ([one.name for one in found.skills], said(found, tmp_path)) == snapshot(
        (["four"], ["~/1/2/3/x/five: left out: it is more than 4 folders deep"])
    )


def test_no_more_than_so_many_folders_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "group").mkdir()
    for number in range(10_000):
        (tmp_path / f"group/{number:04}").mkdir()
    skill(tmp_path / "group", "0000")
    skill(tmp_path / "group", "1999")
    skill(tmp_path, "other")

    found = find_skills(user=[tmp_path])
    assert ([one.name for one in found.skills], said(found, tmp_path)) == snapshot(
        (["0000"], ["~: left out: it has more than 2,000 folders; the rest is left out"])
    )


def test_a_folder_with_too_many_names_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    for number in range(10_001):
        (tmp_path / f"full/{number}").touch()
    skill(tmp_path, "a")

    found = find_skills(user=[tmp_path])
    assert ([one.name for one in found.skills], said(found, tmp_path)) == snapshot(
        (["a"], ["~/full: left out: it has more than 10,000 names in it"])
    )


def test_no_more_than_so_many_skills_are_offered(tmp_path: Path) -> None:
    for place in ("one", "two"):
        for number in range(251):
            skill(tmp_path / place, f"{place}-{number:03}")

    found = find_skills(user=[tmp_path / "one", tmp_path / "two"])
    offered = [one.name for one in found.skills]
    assert offered == [f"one-{number:03}" for number in range(250)]
    assert [said(found, tmp_path)[at] for at in (0, 1, 2, -1)] == snapshot(
        [
            "~/one: left out: it has more than 250 skills; the rest is left out",
            "~/two: left out: it has more than 250 skills; the rest is left out",
            "~/two/two-000: left out: no more than 250 skills are offered",
            "~/two/two-249: left out: no more than 250 skills are offered",
        ]
    )
    assert len(found.catalogue) < 40_000


def test_a_long_catalogue_is_clipped_evenly(tmp_path: Path) -> None:
    for number in range(100):
        skill(tmp_path, f"s{number}", f"---\nname: s{number}\ndescription: {'d' * 1000}\n---\n")

    found = find_skills(user=[tmp_path])
    assert {len(line) for line in found.catalogue.splitlines()[3:-1]} == {326, 327}


def test_a_skill_has_no_more_than_so_much_in_it(tmp_path: Path) -> None:
    many = skill(tmp_path, "many")
    for number in range(501):
        put(many / f"{number}", "")
    large = skill(tmp_path, "large")
    put(large / "a", b"x" * (9 << 20))
    put(large / "b", b"x" * (8 << 20))
    put(skill(tmp_path, "deep") / "1/2/3/4/5/6/7/file", "")

    found = find_skills(user=[tmp_path])
    assert (found.skills, said(found, tmp_path)) == snapshot(
        (
            (),
            [
                "~/deep: left out: it has folders more than 6 deep",
                "~/large: left out: it has more than 500 files, or 16,777,216 bytes in them",
                "~/many: left out: it has more than 500 files, or 16,777,216 bytes in them",
            ],
        )
    )


def test_a_place_has_no_more_than_so_many_bytes(tmp_path: Path) -> None:
    for number in range(20):
        folder = skill(tmp_path, f"s{number:02}")
        with (folder / "asset").open("wb") as asset:
            asset.truncate((17 if number == 1 else 15) << 20)

    found = find_skills(user=[tmp_path])
    assert ([one.name for one in found.skills], said(found, tmp_path)) == snapshot(
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
                "~/s01: left out: it has more than 16,777,216 bytes",
                "~: left out: its skills have more than 268,435,456 bytes; the rest is left out",
            ],
        )
    )


def test_what_goes_while_it_is_looked_at_is_passed_over(tmp_path: Path) -> None:
    place = tmp_path / ".agents/skills"
    for name in ("a", "b", "c"):
        skill(place, name)
    put(place / "a/file", "")

    def trusted(path: str, content: bytes) -> bool:
        shutil.rmtree(place / "b", ignore_errors=True)
        return True

    found = find_skills(tmp_path, trusted=trusted)
    assert ([one.name for one in found.skills], said(found, tmp_path)) == (
        ["a", "c"],
        [".agents/skills/b: left out: it is not there"],
    )


def test_names_of_files_do_not_hide_or_write_lines(tmp_path: Path) -> None:
    folder = skill(tmp_path, "a")
    put(folder / "x\n- y", "one")
    put(folder / b"\xff\x1b".decode("utf-8", "surrogateescape"), "two")
    found = find_skills(user=[tmp_path])

    assert load(found, "a").text.partition("</skill>\n")[2] == snapshot("""\
Files of this skill. To see one, call skill with "file":
- x - y
- \\xff\\x1b\
""")
    assert load(found, "a", file="\\xff\\x1b").text.splitlines()[1] == "two"


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
        ('a: "\\ud83d\\ude00 \\ud83d \\U0001f600 \\UFFFFFFFF"', {"a": "😀 \ufffd 😀 \\UFFFFFFFF"}),
        ("a: |\n  one\n    two\n\n  three\n", {"a": "one\n  two\n\nthree"}),
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
        ("a:\n\n  b: c\n  d: 'e'\n  f: g\n    h\n  b: i", {"a": {"b": "c", "d": "e", "f": "g h"}}),
        ("a:\n  http://example.org", {"a": "http://example.org"}),
        ("a.b-c: d", {"a.b-c": "d"}),
    ],
)
def test_frontmatter_is_read_as_text_lists_and_maps(
    tmp_path: Path, head: str, read: dict[str, object]
) -> None:
    assert fields(tmp_path, head) == (read, [])


@pytest.mark.parametrize(
    ("head", "read", "problem"),
    [
        ("a: Use when: asked", {"a": "Use when: asked"}, "'a' holds a colon and has no quotes: other readers refuse it"),
        ("a:b", {"a": "b"}, "'a' has no space after its colon"),
        ("a: b\na: c", {"a": "b"}, "'a' is there twice; the first one counts"),
        ("just words", {}, "line 4 is no 'key: value'"),
        ("a b: c", {}, "line 4 is no 'key: value'"),
        ("? a", {}, "line 4 is no 'key: value'"),
        ('a: "open', {"a": '"open'}, "'a' has quotes that do not match; it is taken as it stands"),
        ("a: 'one' two", {"a": "'one' two"}, "'a' has quotes that do not match; it is taken as it stands"),
        ("a: &x b", {"a": "&x b"}, "'a' is more than text in YAML; it is taken as text"),
        ("a: !!python/object x", {"a": "!!python/object x"}, "'a' is more than text in YAML; it is taken as text"),
        ("a: [b, [c]]", {"a": "[b, [c]]"}, "'a' is nested deeper than is read here; it is taken as text"),
        ("a: [b", {"a": "[b"}, "'a' is nested deeper than is read here; it is taken as text"),
        ("a: [b] c", {"a": "[b] c"}, "'a' is nested deeper than is read here; it is taken as text"),
        ("a: {b}", {"a": "{b}"}, "'a' is nested deeper than is read here; it is taken as text"),
        ("a:\n  b:\n    c: d", {"a": "b:\n  c: d"}, "'a' is nested deeper than is read here; it is taken as text"),
        ("a:\n  b: |\n    c", {"a": "b: |\n  c"}, "'a' is nested deeper than is read here; it is taken as text"),
    ],
)  # fmt: skip
def test_what_frontmatter_cannot_say_is_kept_and_told(
    tmp_path: Path, head: str, read: dict[str, object], problem: str
) -> None:
    assert fields(tmp_path, head) == (read, [problem])


def test_an_indented_line_before_all_keys_belongs_to_none(tmp_path: Path) -> None:
    skill(tmp_path, "s", "---\n\n  x: y\nname: s\ndescription: d\n---\n")

    assert said(find_skills(user=[tmp_path]), tmp_path) == [
        "~/s: lenient: line 3 is no 'key: value'"
    ]


def test_keys_and_problems_are_bounded(tmp_path: Path) -> None:
    read, problems = fields(tmp_path, "\n".join(f"k{number}: v" for number in range(200)))

    assert (len(read), len(problems), problems[0]) == (
        98,
        20,
        "there are more than 100 keys; 'k98' is left out",
    )


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z0-9_.-]{0,9}", fullmatch=True), TEXTS | st.lists(TEXTS)
    )
)
def test_what_is_written_in_quotes_is_read_back(
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
        found = find_skills(user=[root])
        shown = [load(found, one.name).text for one in found.skills]

    assert len(found.catalogue.splitlines()) == (5 if found.skills else 0)
    assert [one.count("</skill>") for one in shown] == [1] * len(shown)
    assert {category(one) for one in "".join(shown)} & {"Cs", "Zl", "Zp"} == set()
    assert {one for one in "".join(shown) if category(one) == "Cc"} <= {"\n", "\t"}


@pytest.mark.parametrize(
    "line", [" " * 60_000, "a: [" + '\\"' * 30_000, "a: '" + "''" * 30_000, 'a: "' + '\\"' * 30_000, "a: " + "{" * 60_000, "a: " + "x: " * 20_000, "- " * 30_000, "a: [" + " ," * 25_000 + "[", "\n".join("a: b" for _ in range(12_000))]
)  # fmt: skip
def test_no_line_takes_long_to_read(tmp_path: Path, line: str) -> None:
    skill(tmp_path, "s", f"---\nname: s\ndescription: d\n{line}\n---\n")

    assert [one.name for one in find_skills(user=[tmp_path]).skills] == ["s"]
