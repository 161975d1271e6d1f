"""Landlock's rules: what each version of the kernel knows, and which paths they are for."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from handrail.sandbox import SandboxUnavailable
from handrail.sandbox._kernel import landlock, syscalls
from handrail.sandbox._landlock_tier import make_report


def test_an_old_landlock_is_refused_and_a_middling_one_says_what_it_lacks() -> None:
    with pytest.raises(SandboxUnavailable, match=r"use Linux 6\.2 or later"):
        landlock.require_version(2)

    landlock.require_version(3)
    assert [landlock.rights_of(version) for version in (3, 4, 5, 6, 7)] == [
        (0x7FFF,),
        (0x7FFF, 3),
        (0xFFFF, 3),
        (0xFFFF, 3, 3),
        (0xFFFF, 3, 3),
    ]
    assert set(make_report(5).not_enforced) - set(make_report(6).not_enforced) == {
        "signals can be sent to other processes of this user (before Linux 6.12)"
    }


def test_hidden_things_are_left_out_of_rules_by_what_they_are(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/secret"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "twin").hardlink_to(tmp_path / "b/secret")
    hidden: Any = [str(tmp_path / "b/secret"), str(tmp_path / "gone")]

    found = landlock.paths_except(hidden, str(tmp_path))

    assert sorted(found) == [str(tmp_path / "a"), str(tmp_path / "b/c")]


def test_a_rule_is_for_a_real_path(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/file").touch()
    (tmp_path / "link").symlink_to("real")

    def readable(path: Path) -> bool:
        rules = landlock.make_ruleset(syscalls.landlock_version(), [(str(path), landlock.READ)])
        try:
            return landlock.run_restricted(
                lambda: _opens(tmp_path / "real/file"), [rules], ALLOW_ALL
            )
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
        landlock.run_restricted(lambda: 1, [-1], ALLOW_ALL)
