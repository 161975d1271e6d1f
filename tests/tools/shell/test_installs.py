"""Installs: an approval opens the project's environment for one command, and nothing else does."""

from __future__ import annotations

import ensurepip
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from uv import find_uv_bin

from handrail import Allow, Call, Deny, Executor, Toolset, writes_file
from handrail.net import Guard, Proxy
from handrail.permissions import Answer, Grade, Pending
from handrail.policy import Rulebook
from handrail.sandbox import Sandbox, SandboxUnavailable
from handrail.tools import Jobs, Workspace, bash, stop_job, undo
from net.web_stage import PUBLIC, Site, reply
from tools.shell.stage import timeless

pytestmark = pytest.mark.anyio

UV_FOLDER = str(Path(find_uv_bin()).resolve().parent)
WHEEL = "demo-1.0-py3-none-any.whl"
BY_CODE = "programs run code from .venv outside the sandbox"
PIP = "#!/bin/sh\necho installed > $VIRTUAL_ENV/new && echo done\n"
"""A package manager that writes one file."""


def program(path: Path, text: str = PIP) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def make_wheel(path: Path) -> bytes:
    about = "demo-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("demo.py", "print('from the wheel')\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")
    return path.read_bytes()


@contextmanager
def serve_index(folder: Path) -> Iterator[Proxy]:
    """The way to a package index on loopback, under a public name."""
    page = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
    wheel = reply(make_wheel(folder / WHEEL), "application/octet-stream")
    site = Site({"/simple/demo/": reply(page, "text/html"), f"/{WHEEL}": wheel})
    proxy = Proxy(
        [],
        directory=folder / "p",
        guard=Guard(resolver=lambda *_: [PUBLIC]),
        connect=lambda *_: socket.create_connection(("127.0.0.1", site.port)),
    )
    yield proxy
    proxy.close()
    site.close()


def make_environment(root: Path) -> None:
    """An environment without packages, for uv, which is much faster than pip."""
    make = [sys.executable, "-m", "venv", "--without-pip", root / ".venv"]
    subprocess.run(make, check=True)  # noqa: S603  our own interpreter


def use_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{UV_FOLDER}{os.pathsep}{os.environ['PATH']}")


def add_pip(root: Path) -> None:
    """Add the pip that Python brings along."""
    (packages,) = root.glob(".venv/lib/*/site-packages")
    (bundled,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    with zipfile.ZipFile(bundled) as wheel:
        wheel.extractall(packages)
    program(root / ".venv/bin/pip", '#!/bin/sh\nexec "$VIRTUAL_ENV/bin/python" -m pip "$@"\n')


class Stage:
    """A workspace, rules, and a person who answers."""

    def __init__(self, root: Path, *, mode: str = "edits", rules: str = "", **options: Any) -> None:
        self.root = root
        self.book = Rulebook.from_toml(rules, mode=mode, sandboxed=True, workspace=root)
        readable = [UV_FOLDER]  # it may be in a temporary folder, which commands do not see
        self.sandbox = Sandbox(root, opened=self.book.find_hosts, readable=readable, **options)
        self.workspace = Workspace(root, undo_folder=root.parent / "undo")
        self.jobs = Jobs()
        self.asked: list[Pending] = []
        self.answer: Answer = Allow()
        tools = bash(self.sandbox, jobs=self.jobs, workspace=self.workspace), stop_job(self.jobs)
        self.executor = Executor(Toolset(*tools), policy=self.book, approvals=self.approve)

    async def approve(self, pending: Pending) -> Answer:
        self.asked.append(pending)
        return self.answer

    async def run(self, command: str, **args: Any) -> str:
        """What the model reads about one call."""
        result = await self.executor.run(Call("bash", {"command": command, **args}))
        return timeless(result.text)

    @property
    def questions(self) -> list[str]:
        return [pending.question for pending in self.asked]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    made = tmp_path / "ws"
    made.mkdir()
    return made


@pytest.fixture
def small(root: Path) -> Stage:
    """With an environment that has very small package managers."""
    for name in ("pip", "pip3.11", "python", "python3", "uv", "poetry", "npm", "yarn"):
        program(root / ".venv/bin" / name)
    return Stage(root)


@pytest.mark.parametrize("by", ["uv pip", pytest.param("pip", marks=pytest.mark.soak)])
async def test_a_wheel_of_the_workspace_is_installed_when_approved_and_undone(
    root: Path, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_uv(monkeypatch)
    make_environment(root)
    if by == "pip":
        add_pip(root)
    make_wheel(root / WHEEL)
    stage = Stage(root)
    command = f"{by} install -q --no-index ./{WHEEL}"
    assert await stage.run(command) == "(no output)\n[exit code 0, N s]"
    assert await stage.run("python -m demo") == "from the wheel\n[exit code 0, N s]"
    assert stage.questions == [
        f"Allow this command, and let it change .venv? `{command}` ({BY_CODE})"
    ]
    assert stage.asked[0].grade is Grade.UNCONFINED
    undo(stage.workspace)
    assert "No module named demo" in await stage.run("python -m demo")


async def test_a_wheel_of_an_index_is_installed_with_one_question(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_uv(monkeypatch)
    make_environment(root)
    with serve_index(root.parent) as proxy:
        stage = Stage(root, network=proxy)
        index = "-i http://pub.test/simple"
        said = await stage.run(f"uv pip install -q {index} demo 2>&1 | tail -n 5")
        ran = await stage.run("python -m demo")
    assert (said, ran) == (
        "(no output)\n[exit code 0, N s]",
        "from the wheel\n[exit code 0, N s]",
    )
    (question,) = stage.questions
    hosts = "pypi.org, files.pythonhosted.org and pub.test"
    assert question.startswith(f"Allow this command, and let it reach {hosts}, and change .venv? `")
    assert stage.asked[0].grade is Grade.LEAVES


INSTALLS = [
    "pip install demo",
    "pip3.11 -q install 'demo>=1' --no-deps >/dev/null",
    "python -m pip install -e .[dev]",
    ".venv/bin/pip uninstall -y demo",
    "./.venv/bin/python3 -m pip install demo",
    "source .venv/bin/activate && pip install demo",
    "uv pip install demo",
    "uv sync && uv add demo",
    "poetry install",
    "pip install -U pip\npip install demo 2>&1 | grep -v x | tail -3",
    "cd src; pip install demo",
]
NOT_INSTALLS = [
    "echo pip install; echo x > .venv/new",
    "pip install demo; echo x > .venv/new",
    "pip install demo && rm -rf .venv",
    "pip install demo | sh",
    "pip install demo | cd src",
    "pip install demo &",
    "pip install demo > .venv/new",
    "pip install $(echo x > .venv/new)",
    "pip install `echo x`",
    'pip install "$x"',
    "pip() { echo x > .venv/new; }; pip install demo",
    "PATH=. pip install demo",
    "./pip install demo",
    "other/bin/pip install demo",
    "cd other; .venv/bin/pip install demo",
    "cd other; python -m pip install demo",
    "cd other; source .venv/bin/activate; pip install demo",
    "cd other; uv sync",
    "source other; pip install demo",
    "source venv/bin/activate; pip install demo",
    "source .venv/bin/activate",
    "venv/bin/pip install x; pip install demo",
    "pip list",
    "pip",
    "yarn",
    "pip install --target=out demo",
    "pip install --dry-run demo",
    "python -m pytest",
    "npm install",
    "pip install demo &&",
    f"pip install {'x' * 4000}",
]


async def test_a_line_of_installs_opens_the_environment(small: Stage) -> None:
    (small.root / "src").mkdir()
    small.answer = Deny.by_user()
    for command in INSTALLS:
        await small.run(command)
    asked = [(one.accesses[1], one.question[-len(BY_CODE) - 1 : -1]) for one in small.asked]
    assert asked == [(writes_file(".venv"), BY_CODE)] * len(INSTALLS)


async def test_any_other_line_does_not(small: Stage) -> None:
    for name in ("pip", "other/bin/pip", "other/.venv/bin/pip", "venv/bin/pip"):
        program(small.root / name, "#!/bin/sh\necho x > .venv/new\n")
    for name in ("other/.venv", "venv/bin"):
        program(small.root / name / "activate", "echo x > .venv/new\n")
    opened: list[str] = []
    for command in NOT_INSTALLS:
        await small.run(command, restart=True, timeout_ms=5_000)
        opened += [command] if (small.root / ".venv/new").exists() else []
    assert opened == []
    assert all("change .venv" not in question for question in small.questions)


async def test_a_module_named_pip_is_not_pip(small: Stage) -> None:
    (small.root / "pip.py").touch()
    await small.run("python -m pip install demo")
    assert [pending.accesses[1:] for pending in small.asked if "file:" in str(pending)] == []


async def test_only_an_approval_opens_it_and_only_once(root: Path) -> None:
    program(root / ".venv/bin/pip")
    closed = "cannot create ROOT/.venv/new: Read-only file system"
    told: list[tuple[int, str]] = []
    for rules, answer in (
        ("", Deny.by_user()),
        ('[[rule]]\ndecide = "deny"\ncommand = "pip install *"', Allow()),
        ('[[rule]]\ndecide = "deny"\naccess = ["write file:.venv"]', Allow()),
        ('[[rule]]\ndecide = "allow"\ncommand = "pip install *"', Allow()),
    ):
        stage = Stage(root, rules=rules)
        stage.answer = answer
        text = await stage.run("pip install demo")
        told.append((len(stage.asked), text.split(".")[0]))
    later = (await stage.run("sh .venv/bin/pip install")).replace(str(root), "ROOT")
    assert told == [
        (1, "Not run: the user denied this call"),
        (0, "Not run: rule 'deny pip install *' denies `pip install`"),
        (0, "Not run: rule 'deny write file:"),
        (1, "done\n[exit code 0, N s]"),
    ]
    assert closed in later
    unruled = Executor(Toolset(bash(Sandbox(root))))
    result = await unruled.run(Call("bash", {"command": "pip install demo"}))
    assert closed in result.text.replace(str(root), "ROOT")


async def test_plan_denies_and_the_open_mode_asks(root: Path) -> None:
    program(root / ".venv/bin/pip")
    plan, free = Stage(root, mode="plan"), Stage(root, mode="open")
    assert "plan mode allows no changes" in await plan.run("pip install demo")
    assert await free.run("pip install --no-index demo") == "done\n[exit code 0, N s]"
    assert (len(plan.asked), len(free.asked)) == (0, 1)


async def test_a_link_and_what_an_application_holds_stay_closed(root: Path) -> None:
    elsewhere = root.parent / "elsewhere"
    program(elsewhere / "bin/pip")
    (root / ".venv").symlink_to(elsewhere)
    linked = Stage(root)
    await linked.run(".venv/bin/pip install demo")
    (root / ".venv").unlink()
    program(root / ".venv/bin/pip")
    held = Stage(root, read_only=[".venv"])
    await held.run("pip install demo")
    asked = [question for stage in (linked, held) for question in stage.questions]
    assert not any("change .venv" in question for question in asked)
    assert [(folder / "new").exists() for folder in (elsewhere, root / ".venv")] == [False, False]
    with pytest.raises(SandboxUnavailable, match=r"^\.venv: cannot be opened for a command\.$"):
        held.sandbox.start("true", installs_into=[".venv"])


async def test_hooks_in_the_environment_keep_it_closed(small: Stage) -> None:
    (small.root / ".git").mkdir()
    settings = "[core]\n\thooksPath = .venv/hooks\n"
    (small.root / ".git/config").write_text(settings, encoding="utf-8")
    assert not small.sandbox.can_open(".venv")


async def test_the_open_folder_cannot_be_moved_away_from_the_mounts_of_jobs(small: Stage) -> None:
    program(small.root / ".venv/bin/pip", "#!/bin/sh\nmv .venv old; touch .venv/new\n")
    begin, out = (
        "until [ -e .venv/new ]; do sleep 0.05; done",
        "{ echo x > .venv/job; } 2> out; echo > end",
    )
    await small.run(f"{begin}; {out}", background=True)
    assert "cannot move '.venv'" in await small.run("pip install demo")
    await small.run("until [ -e end ]; do sleep 0.05; done", timeout_ms=10_000)
    await small.executor.aclose()
    assert "Read-only" in (small.root / "out").read_text(encoding="utf-8")


async def test_programs_of_node_that_come_first_are_opened_too(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = root / "node_modules/.bin"
    program(programs / "npm", "#!/bin/sh\ntouch node_modules/.bin/new && echo done\n")
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    stage = Stage(root)
    assert await stage.run("npm install --offline") == "done\n[exit code 0, N s]"
    command, folder = "`npm install --offline`", "node_modules/.bin"
    reason = f"programs run code from {folder} outside the sandbox"
    assert stage.questions == [
        f"Allow this command, and let it change {folder}? {command} ({reason})"
    ]
