"""Where there is no sandbox to be had, nothing runs; and it is said why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from handrail.net import Proxy
from handrail.sandbox import Sandbox, SandboxUnavailable
from sandbox.commands import run


def programs(folder: Path, bwrap: str = "") -> str:
    """A folder with bash in it, and perhaps with something that calls itself bwrap."""
    folder.mkdir()
    (folder / "bash").symlink_to(shutil.which("bash", path=os.defpath) or "/bin/bash")
    if bwrap:
        (folder / "bwrap").write_text(f"#!/bin/bash\n{bwrap}\n", encoding="utf-8")
        (folder / "bwrap").chmod(0o755)
    return str(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def test_without_bubblewrap_it_says_what_to_install(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path / "bin"))

    with pytest.raises(SandboxUnavailable) as refused:
        Sandbox(root, tier="bubblewrap")

    assert str(refused.value) == snapshot(
        "bubblewrap was not found. Install it (`apt-get install bubblewrap`), version 0.8 or later."
    )
    assert Sandbox(root).report().tier == "landlock"


@pytest.mark.parametrize(
    "words",
    [("echo 'bwrap: no way' >&2; exit 1", "no way"), ("exit 1", "no error message")],
)
def test_a_bubblewrap_that_does_not_work_is_not_taken(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    says, said = words
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", says))

    with pytest.raises(SandboxUnavailable) as refused:
        Sandbox(root, tier="bubblewrap")

    assert str(refused.value) == (
        f"bubblewrap is installed but does not work: {said}. "
        "It needs version 0.8 or later, and user namespaces must be allowed."
    )


def test_both_reasons_are_told_where_neither_works(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path / "bin"))

    with pytest.raises(SandboxUnavailable) as refused:
        Sandbox(root, network=["example.org"])

    assert str(refused.value) == snapshot(
        "No sandbox is available. bubblewrap was not found. Install it (`apt-get install bubblewrap`), version 0.8 or later. Allowing hosts requires bubblewrap."
    )


def test_without_bash_there_is_nothing_to_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    with pytest.raises(SandboxUnavailable, match="bash was not found"):
        Sandbox(root)


def test_a_second_landlock_inside_the_first_is_refused(root: Path) -> None:
    code = "from handrail.sandbox import Sandbox; Sandbox('.', tier='landlock')"
    line = f'ulimit -R 1000000; exec {sys.executable} -c "{code}"'
    made = subprocess.run(["/bin/bash", "-c", line], cwd=root, capture_output=True, check=False)  # noqa: S603

    assert made.stderr.decode().splitlines()[-1] == (
        "handrail.sandbox._values.SandboxUnavailable: "
        "This process already runs in a Landlock sandbox of handrail."
    )


def test_a_bridge_needs_a_python_that_commands_cannot_write(root: Path) -> None:
    with pytest.raises(SandboxUnavailable, match="requires a Python outside the workspace"):
        Sandbox(Path(os.path.realpath(sys.executable)).parent, network=["example.org"])


async def test_hosts_that_are_allowed_are_reached_through_a_bridge(root: Path) -> None:
    sandbox = Sandbox(root, network=["example.org"])

    line = "echo $HTTPS_PROXY; exec 9<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT other.org:443 HTTP/1.1\\r\\n\\r\\n' >&9; head -1 <&9"
    made = await run(sandbox, line)

    assert made.text == "http://127.0.0.1:3128\nHTTP/1.1 403 Forbidden\r\n"
    assert sandbox.report().not_enforced[0] == "these hosts can be reached: example.org"


async def test_nobody_beside_a_bridge_is_out_of_the_filter(root: Path) -> None:
    """With hosts to be reached, process 1 has no filter; so nobody may write into it."""
    line = (
        "grep -h ^Seccomp: /proc/1/status /proc/self/status; (exit 3 &); "
        "cat /proc/1/environ; exec 9<> /proc/1/mem; echo $?; kill -INT 1; exit 7"
    )
    made = await run(Sandbox(root, tier="bubblewrap", network=["example.org"]), line)

    assert made.code == 7
    assert made.text.splitlines() == [
        "Seccomp:\t0",
        "Seccomp:\t2",
        "cat: /proc/1/environ: Permission denied",
        "bash: line 1: /proc/1/mem: Permission denied",
        "1",
    ]


async def test_a_proxy_of_ones_own_serves_too(root: Path, tmp_path: Path) -> None:
    with Proxy(["example.org"], directory=tmp_path / "proxy") as proxy:
        sandbox = Sandbox(root, network=proxy)
        made = await run(
            sandbox, "python3 -c 1; echo fine > x; cat x; touch /dev/.handrail-proxy/x"
        )

    assert made.text.startswith("fine\n")
    assert "Read-only" in made.text
    assert sandbox.report().not_enforced[0] == "these hosts can be reached: example.org"


async def test_links_in_a_workspace_lead_no_rule_astray(tmp_path: Path) -> None:
    for name in ("ws/.env", "ws/sub/key", "out/kept"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("ws/l", "ws/sub/l"):
        (tmp_path / name).symlink_to(tmp_path / "out")

    sandbox = Sandbox(tmp_path / "ws", tier="landlock", masked=[".env", "sub/key"])
    made = await run(sandbox, f"touch l/x sub/l/x {tmp_path}/out/x; rm l/kept")

    assert made.code == 1
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["kept"]
