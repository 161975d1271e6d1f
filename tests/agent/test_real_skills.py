"""Skills as people write them: format errors, links, large files, and scripts that run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import skills_report
from handrail import Call, Executor
from handrail.agent import Skills, find_skills
from handrail.sandbox import Sandbox
from handrail.tools import Workspace, coding_tools

FIXTURES = Path(__file__).parents[1] / "data/skills"
PLAIN = "---\nname: {0}\ndescription: About {0}.\n---\nDo {0}.\n"


def everything(path: str, content: bytes) -> bool:
    return True


def put(file: Path, content: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")
    return file


def skill(place: Path, name: str, more: str = "") -> Path:
    return put(place / name / "SKILL.md", PLAIN.format(name) + more).parent


def load(skills: Skills, name: str, file: str = "") -> str:
    return Executor(skills.tools).run_sync(Call("skill", {"name": name, "file": file}, "c")).text


def touched(skills: Skills, name: str, file: str = "") -> list[str]:
    call = Call("skill", {"name": name, "file": file}, "c")
    return list(map(str, Executor(skills.tools).explain(call).accesses))


def notices(skills: Skills, home: Path) -> list[str]:
    lines = [f"{one.path}: {one.kind}: {one.message}" for one in skills.notices]
    return [one.replace(str(home), "~") for one in lines]


OPEN = "the line --- that ends the front matter is missing; it ends at the first empty line"
COLON = (
    "line 3: 'description' is not valid YAML and is read as text: mapping values are not allowed"
)


@pytest.mark.parametrize(
    ("name", "description", "problem"),
    [
        (
            "no-front-matter",
            "Write the notes of a release from the commits since the last tag.",
            ["no front matter: the folder's name and the first paragraph are used"],
        ),
        (
            "no-description",
            "Check a change before it is merged.",
            ["the description is missing; the first paragraph is used"],
        ),
        (
            "open-front-matter",
            "Rename files by their dates.",
            ["the line --- that ends the front matter is missing; it ends at the first empty line"],
        ),
        ("nested-metadata", "Look up the weather of a city. Use it for forecasts.", []),
        (
            "quoted-next-line",
            "Solve proofs: state the claim, then prove it. Use it for contest problems.",
            [],
        ),
        (
            "unquoted-colon",
            'Convert tables. Triggers: "csv to markdown", spreadsheet, xlsx',
            [f"{COLON} here"],
        ),
    ],
)
def test_a_skill_is_read_although_its_format_is_unusual(
    name: str, description: str, problem: list[str]
) -> None:
    skills = find_skills(user=[FIXTURES / name])

    assert [(one.name, one.description) for one in skills.skills] == [(name, description)]
    assert [one.message for one in skills.notices] == problem


def test_nested_metadata_is_kept() -> None:
    [one] = find_skills(user=[FIXTURES / "nested-metadata"]).skills
    install = {
        "id": "brew",
        "kind": "brew",
        "formula": "example/tap/weather",
        "bins": ("weather",),
    }

    assert one.fields["metadata"] == {
        "runner": {
            "emoji": "🌦",
            "requires": {"bins": ("curl",), "env": ()},
            "install": (install,),
        }
    }


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("# Only a heading", "Only a heading"),
        ("---\nname: s\ndescription: Cut off.", "Cut off."),
        ("```\ncode\n```\n\n![x](y)\n \nProse.\nMore.", "Prose. More."),
        ("x" * 2_000, f"{'x' * 1_020} ..."),
    ],
)
def test_the_description_without_a_field_is_the_first_prose(
    tmp_path: Path, text: str, description: str
) -> None:
    put(tmp_path / "s/SKILL.md", text)

    assert [one.description for one in find_skills(user=[tmp_path]).skills] == [description]


def test_a_skill_file_of_more_than_64_kib_is_read(tmp_path: Path) -> None:
    skill(tmp_path, "large", "Line.\n" * 30_000)

    skills = find_skills(user=[tmp_path])
    assert (len(skills.skills), skills.notices) == (1, ())
    assert "characters omitted" in load(skills, "large")


# Links


def test_links_inside_a_workspace_are_followed(tmp_path: Path) -> None:
    put(tmp_path / "tools/a/SKILL.md", PLAIN.format("a"))
    put(tmp_path / "shared/run.sh", "true\n")
    put(tmp_path / "notes.md", "Notes.\n")
    (tmp_path / "tools/a/scripts").symlink_to("../../shared")
    (tmp_path / "tools/a/notes.md").symlink_to("../../notes.md")
    (tmp_path / ".agents/skills").mkdir(parents=True)
    (tmp_path / ".agents/skills/a").symlink_to("../../tools/a")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude/skills").symlink_to("../.agents/skills")

    skills = find_skills(tmp_path, trusted=everything)
    assert ([one.folder for one in skills.skills], skills.notices) == ([".agents/skills/a"], ())
    assert load(skills, "a").splitlines()[-2:] == ["- notes.md", "- scripts/run.sh"]
    assert load(skills, "a", "notes.md").splitlines()[1] == "Notes."


def test_a_call_touches_the_file_that_a_link_leads_to(tmp_path: Path) -> None:
    folder = skill(tmp_path / ".agents/skills", "a")
    put(tmp_path / ".env", "KEY=1\n")
    (folder / "notes.md").symlink_to("../../../.env")
    skills = find_skills(tmp_path, trusted=everything)

    assert touched(skills, "a", "notes.md") == [
        "read file:.agents/skills/a",
        "read file:.agents/skills/a/notes.md",
        "read file:.env",
    ]
    assert touched(skills, "a", "gone.md") == [
        "read file:.agents/skills/a",
        "read file:.agents/skills/a/gone.md",
    ]


def test_a_link_with_another_name_than_the_shown_one_is_not_read(tmp_path: Path) -> None:
    folder = skill(tmp_path / ".agents/skills", "a")
    put(tmp_path / ".env", "KEY=1\n")
    (folder / "x\u200b").symlink_to("../../../.env")
    put(folder / "y\u200b", "Plain.\n")
    skills = find_skills(tmp_path, trusted=everything)

    assert load(skills, "a").splitlines()[-2:] == ["- x\\u{200b}", "- y\\u{200b}"]
    assert load(skills, "a", "x\\u{200b}") == (
        "Cannot load the file 'x\\\\u{200b}' of the skill 'a': a link whose name has unusual "
        "characters. Continue without it, and tell the user."
    )
    assert load(skills, "a", "y\\u{200b}").splitlines()[1] == "Plain."


def test_a_change_behind_a_link_revokes_trust(tmp_path: Path) -> None:
    folder = skill(tmp_path / ".agents/skills", "a")
    script = put(tmp_path / "run.sh", "true\n")
    (folder / "run.sh").symlink_to(script)
    [before] = find_skills(tmp_path).untrusted
    skills = find_skills(tmp_path, trusted=lambda _, content: content == before.content)
    loaded = load(skills, "a")
    script.write_text("rm -rf ~\n", encoding="utf-8")

    assert loaded.startswith("<skill ")
    assert load(skills, "a").startswith("Not loaded: the skill 'a' is not trusted")


def test_files_behind_links_to_the_outside_belong_to_no_skill_of_a_workspace(
    tmp_path: Path,
) -> None:
    put(tmp_path / "secret", "A secret.\n")
    folder = skill(tmp_path / "work/.agents/skills", "a")
    (folder / "out").symlink_to(tmp_path / "secret")
    (folder / "gone").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    (folder / "to-pipe").symlink_to("pipe")
    skills = find_skills(tmp_path / "work", trusted=everything)

    assert "Files of this skill" not in load(skills, "a")
    assert load(skills, "a", "out") == "The skill 'a' has no file 'out'. Available files: none."


def test_links_of_a_user_are_followed_anywhere(tmp_path: Path) -> None:
    stored = skill(tmp_path / "dotfiles", "a")
    put(tmp_path / "elsewhere/run.sh", "true\n")
    (stored / "run.sh").symlink_to("../../elsewhere/run.sh")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/a").symlink_to(stored)
    (tmp_path / "home/again").symlink_to(stored)
    (tmp_path / "home/gone").symlink_to("nothing")

    skills = find_skills(user=[tmp_path / "home"])
    assert [(one.name, one.folder) for one in skills.skills] == [("a", str(stored))]
    assert notices(skills, tmp_path) == ["~/home/gone: skipped: the link leads to nothing"]
    assert load(skills, "a").splitlines()[0] == f'<skill name="a" folder="{stored}">'
    assert load(skills, "a", "run.sh").splitlines()[1] == "true"


def test_links_between_folders_end(tmp_path: Path) -> None:
    folder = skill(tmp_path, "a")
    put(folder / "x/file", "")
    put(folder / "y/file", "")
    (folder / "x/to-y").symlink_to("../y")
    (folder / "y/to-x").symlink_to("../x")
    (folder / "self").symlink_to(".")

    assert load(find_skills(user=[tmp_path]), "a").splitlines()[4:] == [
        "- x/file",
        "- x/to-y/file",
        "- y/file",
        "- y/to-x/file",
    ]


def test_links_cannot_multiply_the_files_of_a_skill(tmp_path: Path) -> None:
    folder = skill(tmp_path, "a")
    for name in "abcdef":
        (folder / name).mkdir()
        for other in "abcdef":
            (folder / name / f"to-{other}").symlink_to(f"../{other}")

    assert notices(find_skills(user=[tmp_path]), tmp_path) == [
        "~/a: skipped: more than 500 files or 16,777,216 bytes"
    ]


# Scripts


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home folder outside the folders for temporary files, which no command sees."""
    with TemporaryDirectory(prefix=".handrail-test-", dir=Path.home()) as made:
        monkeypatch.setenv("HOME", made)
        yield Path(made)


def test_the_path_that_a_model_reads_runs_in_the_sandbox(home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    put(skill(home / "skills", "tea") / "scripts/boil.sh", "echo boiled\n")
    skills = find_skills(work, user=[home / "skills"])
    folder = load(skills, "tea").partition('folder="')[2].partition('"')[0]

    def run(*readable: str) -> str:
        tools = coding_tools(Workspace(work), sandbox=Sandbox(work, readable=readable))
        command = f"bash {folder}/scripts/boil.sh"
        return Executor(tools).run_sync(Call("bash", {"command": command}, "c")).text

    assert folder == f"{home}/skills/tea"
    assert run(*(one.folder for one in skills.skills if one.from_user)).startswith("boiled\n")
    assert "boiled" not in run()


def test_the_report_of_a_collection_counts_what_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(FIXTURES, tmp_path / "skills")
    put(tmp_path / "skills/empty/SKILL.md", "#\n \n\t\n")
    skills_report.main(tmp_path)

    assert capsys.readouterr().out == (
        "7 SKILL.md files, 6 read\n"
        "1 skipped: the description is missing\n"
        "1 lenient: 'description' is not valid YAML and is read as text: mapping values are not"
        " allowed here\n"
        "1 lenient: no front matter: the folder's name and the first paragraph are used\n"
        "1 lenient: the description is missing; the first paragraph is used\n"
        "1 lenient: the line --- that ends the front matter is missing;"
        " it ends at the first empty line\n"
    )
