"""Files that rules restrict: hidden from programs in the sandbox, or read-only for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail.policy import Level, Rulebook, parse
from handrail.sandbox import Restriction, Sandbox, SandboxUnavailable
from sandbox.commands import run

PEEK = "import sys\nfor name in sys.argv[1:]:\n    try:\n        print(open(name).read())\n    except OSError as error:\n        print(error.strerror)\n"
ATTEMPTS = (
    "cat {0}", "cp {0} copy; cat copy", "ln {0} other; cat other", "ln -s $PWD/{0} link; cat link", "chmod 644 {0}; cat {0}",
    "cat /proc/self/root$PWD/{0}", "cat /proc/1/root$PWD/{0}", "umount {0}; cat {0}", "tar c {0} | tar xO", "python3 peek.py {0}",
    "mv deep gone; cat gone/er/secret", "mv {0} away; cat away", "rm -f {0}", "echo x > {0}", "truncate -s 0 {0}",
)  # fmt: skip
"""Ways to what is in a file, and to change it. The first ten print it if they can."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with a secret in two places, and a program that prints files."""
    root = tmp_path / "ws"
    (root / "deep/er").mkdir(parents=True)
    (root / "peek.py").write_text(PEEK, encoding="utf-8")
    for name in ("secret", "deep/er/secret"):
        (root / name).write_text("canary", encoding="utf-8")
    return root


@pytest.mark.parametrize("name", ["alone", "deep/er/secret"])
async def test_a_hidden_file_is_neither_read_nor_changed(root: Path, name: str) -> None:
    """The control is the same without rules."""
    line = "; ".join(f"{{ {one.format(name)}; }} 2>&1" for one in ATTEMPTS)
    (root / "secret").rename(root / "alone")
    hidden = dict.fromkeys(["alone", "deep/er/secret"], "hidden")

    made = await run(Sandbox(root, tier="bubblewrap", restricted=lambda _: hidden), line)
    after = (root / name).read_text(encoding="utf-8")
    shown = await run(Sandbox(root, tier="bubblewrap"), line)

    assert (made.text.count("canary"), after) == (0, "canary")
    assert shown.text.count("canary") >= 9
    assert (root / name).exists() is False or (root / name).read_text(encoding="utf-8") == ""


async def test_a_hidden_folder_and_what_is_put_in_it_later(root: Path) -> None:
    sandbox = Sandbox(root, tier="bubblewrap", restricted=lambda _: {"deep": "hidden"})
    line = "python3 peek.py deep/er/secret; ls deep; touch deep/x; mv deep away"
    made = await run(sandbox, f"{{ {line}; }} 2>&1")

    assert made.text == snapshot("""\
Permission denied
ls: cannot open directory 'deep': Permission denied
touch: cannot touch 'deep/x': Permission denied
mv: cannot move 'deep' to 'away': Device or resource busy
""")


async def test_a_read_only_file_is_read_and_not_changed(root: Path) -> None:
    found = dict.fromkeys(["secret", "deep"], "read-only")
    sandbox = Sandbox(root, tier="bubblewrap", restricted=lambda _: found)
    line = "cat secret; echo x > secret; rm secret; mv secret y; echo x > deep/new; rm -r deep"
    made = await run(sandbox, f"{{ {line}; }} 2>&1; echo fine > y; cat y")

    assert made.text == snapshot("""\
canarybash: line 1: secret: Read-only file system
rm: cannot remove 'secret': Device or resource busy
mv: cannot move 'secret' to 'y': Device or resource busy
bash: line 1: deep/new: Read-only file system
rm: cannot remove 'deep/er/secret': Read-only file system
fine
""")


async def test_each_command_has_its_own_restrictions(root: Path) -> None:
    """They are found when a command starts: files that appear later, and links to them."""

    def find(command: str) -> dict[str, Restriction]:
        names = (one.name for one in root.iterdir() if one.suffix == ".key")
        return {} if "approved" in command else dict.fromkeys(names, "hidden")

    sandbox = Sandbox(root, tier="bubblewrap", restricted=find)
    told = [(await run(sandbox, "echo canary > a.key; cat a.key")).text]
    (root / "b.key").symlink_to("deep/er/secret")
    (root / "c.key").symlink_to("/etc/hostname")
    (root / "d.key").symlink_to(".")
    (root / "e.key").symlink_to("nowhere")
    read = "python3 peek.py a.key b.key deep/er/secret secret"
    told += [(await run(sandbox, line)).text for line in (read, f"{read} # approved")]
    told.append((await run(sandbox, f"{read} # approved", restricted={"a.key": "hidden"})).text)

    assert told == snapshot(
        [
            "canary\n",
            "Permission denied\nPermission denied\nPermission denied\ncanary\n",
            "canary\n\ncanary\ncanary\ncanary\n",
            "Permission denied\ncanary\ncanary\ncanary\n",
        ]
    )


async def test_other_restrictions_and_masks_hold_beside_them(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git/config").write_text("[core]\n", encoding="utf-8")
    (root / "masked/in").mkdir(parents=True)
    names = ["deep", "deep/er/secret", "missing", ".git", "secret", "masked", "masked/in"]
    found = {"peek.py": "read-only", "deep/er": "read-only", **dict.fromkeys(names, "hidden")}
    sandbox = Sandbox(
        root, tier="bubblewrap", masked=["secret", "masked"], restricted=lambda _: found
    )
    made = await run(
        sandbox, "python3 peek.py .git/config deep/er/secret; cat secret; ls masked .git"
    )

    assert made.text == snapshot("""\
Permission denied
Permission denied
ls: cannot open directory '.git': Permission denied
masked:
""")


def test_more_files_than_bubblewrap_can_hide_are_refused(root: Path) -> None:
    for number in range(1001):
        (root / f"{number}.key").touch()
    names = [one.name for one in root.glob("*.key")]
    sandbox = Sandbox(root, restricted=lambda _: dict.fromkeys(names, "hidden"), tier="bubblewrap")

    with pytest.raises(SandboxUnavailable) as refused:
        sandbox.start("true")

    assert str(refused.value) == snapshot(
        "Rules restrict more than 1,000 files of the workspace, too many for bubblewrap. Write rules about whole folders, such as `file:secrets/**`."
    )


async def test_landlock_restricts_nothing_and_says_so(root: Path) -> None:
    boxes = [
        Sandbox(root, tier="landlock", restricted=lambda _: {"secret": "hidden"}),
        Sandbox(root, tier="landlock"),
        Sandbox(root, tier="bubblewrap", restricted=lambda _: {"secret": "hidden"}),
        Sandbox(root, tier="bubblewrap"),
    ]
    lines = [str(box.report()).splitlines() for box in boxes]

    assert (await run(boxes[0], "cat secret")).text == "canary"
    assert [box.find_restricted("cat x") for box in boxes] == [{}, {}, {"secret": "hidden"}, {}]
    assert [[line for line in told if "rules" in line] for told in lines] == snapshot(
        [
            [
                "  not enforced: files that rules deny or ask about can be read and changed, unless named"
            ],
            [],
            ["  enforced: files that rules deny or ask about are hidden or read-only (mounts)"],
            [],
        ]
    )


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_what_is_slow_can_be_done_before_the_first_command(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: Any
) -> None:
    fake = tmp_path / "bin/git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/log\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    sandbox = Sandbox(root, tier=tier)
    sandbox.prepare()
    before = (tmp_path / "log").read_text(encoding="utf-8")

    assert (await run(sandbox, "cat secret")).text == "canary"
    assert before == (tmp_path / "log").read_text(encoding="utf-8") == "ran\n"


async def test_a_rulebook_reaches_scripts_by_every_name_of_a_file(root: Path) -> None:
    text = '[[rule]]\nid = "a"\ndecide = "deny"\naccess = ["* file:secret", "write file:tests/**"]'
    rules = Rulebook(parse(text, file="r.toml", level=Level.USER).rules, workspace=root)
    (root / "x").hardlink_to(root / "secret")
    (root / "link").symlink_to("secret")
    (root / "tests").mkdir()
    line = "python3 peek.py secret x link; echo hacked > tests/t.py"
    boxes = [Sandbox(root, restricted=rules.find_restricted), Sandbox(root)]
    made = [(await run(box, f"{{ {line}; }} 2>&1")).text for box in boxes]

    assert made == snapshot(
        [
            """\
Permission denied
Permission denied
Permission denied
bash: line 1: tests/t.py: Read-only file system
""",
            "canary\ncanary\ncanary\n",
        ]
    )
    assert os.listdir(root / "tests") == ["t.py"]  # noqa: PTH208  of the control
