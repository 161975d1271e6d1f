"""Where there is no sandbox to be had, nothing runs; and it is said why."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from handrail.net import Proxy
from handrail.sandbox import Sandbox, Unavailable
from handrail.sandbox import _kernel as kernel
from handrail.sandbox import _landlock as landlock
from handrail.sandbox._landlocked import report
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

    with pytest.raises(Unavailable) as refused:
        Sandbox(root, tier="bubblewrap")

    assert str(refused.value) == snapshot(
        "bubblewrap was not found. Install it (`apt-get install bubblewrap`), version 0.8 or later."
    )
    assert Sandbox(root).report().tier == "landlock"


@pytest.mark.parametrize(
    "words",
    [("echo 'bwrap: no way' >&2; exit 1", "no way"), ("exit 1", "nothing")],
)
def test_a_bubblewrap_that_does_not_work_is_not_taken(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, str]
) -> None:
    says, said = words
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", says))

    with pytest.raises(Unavailable) as refused:
        Sandbox(root, tier="bubblewrap")

    assert str(refused.value) == (
        f"bubblewrap is installed and does not work here (it says: {said}). "
        "It has to be version 0.8 or later, and user namespaces have to be allowed."
    )


def test_both_reasons_are_told_where_neither_works(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path / "bin"))

    with pytest.raises(Unavailable) as refused:
        Sandbox(root, network=["example.org"])

    assert str(refused.value) == snapshot(
        "There is no sandbox to be had. bubblewrap was not found. Install it "
        "(`apt-get install bubblewrap`), version 0.8 or later. "
        "Hosts can be allowed with bubblewrap only."
    )


def test_without_bash_there_is_nothing_to_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))

    with pytest.raises(Unavailable, match="bash was not found"):
        Sandbox(root)


def test_an_old_landlock_is_refused_and_a_middling_one_says_what_it_lacks() -> None:
    with pytest.raises(Unavailable, match="needs Linux 6"):
        landlock.required(2)

    landlock.required(3)
    assert [landlock.handled(one) for one in (3, 4, 5, 6, 7)] == [
        (0x7FFF,),
        (0x7FFF, 3),
        (0xFFFF, 3),
        (0xFFFF, 3, 3),
        (0xFFFF, 3, 3),
    ]
    assert set(report(5).open) - set(report(6).open) == {
        "signals can be sent to other processes of this user (this needs Linux 6.12)"
    }


def test_a_second_landlock_inside_the_first_is_refused(root: Path) -> None:
    code = "from handrail.sandbox import Sandbox; Sandbox('.', tier='landlock')"
    line = f'ulimit -R 1000000; exec {sys.executable} -c "{code}"'
    made = subprocess.run(["/bin/bash", "-c", line], cwd=root, capture_output=True, check=False)  # noqa: S603

    assert made.stderr.decode().splitlines()[-1] == (
        "handrail.sandbox._words.Unavailable: "
        "processes cannot be marked here: this runs in a sandbox already"
    )


def test_a_bridge_needs_a_python_that_commands_cannot_write(root: Path) -> None:
    with pytest.raises(Unavailable, match="needs a Python outside the workspace"):
        Sandbox(Path(os.path.realpath(sys.executable)).parent, network=["example.org"])


async def test_hosts_that_are_allowed_are_reached_through_a_bridge(root: Path) -> None:
    sandbox = Sandbox(root, network=["example.org"])

    line = "echo $HTTPS_PROXY; exec 9<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT other.org:443 HTTP/1.1\\r\\n\\r\\n' >&9; head -1 <&9"
    made = await run(sandbox, line)

    assert made.text == "http://127.0.0.1:3128\nHTTP/1.1 403 Forbidden\r\n"
    assert sandbox.report().open[0] == "hosts that can be reached: example.org"


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
            sandbox, "python3 -c 1; echo fine > x; cat x; touch /tmp/.handrail-proxy/x"
        )

    assert made.text.startswith("fine\n")
    assert "Read-only" in made.text
    assert (
        sandbox.report().open[0] == "hosts that can be reached: those of the proxy that was given"
    )


def test_hidden_things_are_left_out_of_rules_by_what_they_are(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/secret"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "twin").hardlink_to(tmp_path / "b/secret")
    hidden: Any = [str(tmp_path / "b/secret"), str(tmp_path / "gone")]

    found = landlock.all_but(hidden, str(tmp_path))

    assert sorted(found) == [str(tmp_path / "a"), str(tmp_path / "b/c")]


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


def test_a_rule_is_for_a_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").touch()
    (tmp_path / "link").symlink_to("real")

    def readable(path: Path) -> bool:
        rules = landlock.ruleset(kernel.landlock_version(), [(str(path), landlock.READ)])
        try:
            return landlock.restricted(lambda: _opens(tmp_path / "real/file"), [rules], ALLOW_ALL)
        finally:
            os.close(rules)

    assert readable(tmp_path / "real/file")
    assert not readable(tmp_path / "link/file")


def _opens(path: Path) -> bool:
    try:
        path.read_bytes()
    except PermissionError:
        return False
    return True


ALLOW_ALL = struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)


def test_where_the_kernel_refuses_nothing_is_done() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        landlock.restricted(lambda: 1, [-1], ALLOW_ALL)
