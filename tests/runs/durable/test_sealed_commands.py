"""Commands and the console over sealed texts: with the codec in a setting, and without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_harness import Handrail, Ran, made
from handrail.runs import open_runs
from runs.parked import make_pending, park
from sealing import codec


@pytest.fixture
def commands(sqlite: str, tmp_path: Path) -> Handrail:
    """Commands, with a database of a sealed run that waits."""
    with open_runs(sqlite, codec=codec) as store:
        park(store, "r", make_pending("r", expires_at=4e9), prompt="Refund.")
    (tmp_path / "cli").mkdir()
    return made(tmp_path / "cli")


def run(
    handrail: Handrail, sqlite: str, *arguments: str, name: str | None = "sealing:codec"
) -> Ran:
    env = {"HANDRAIL_CODEC": name, "HANDRAIL_DATABASE": sqlite}
    return handrail("runs", *arguments, env=env)


def test_commands_open_texts_and_seal_answers(commands: Handrail, sqlite: str) -> None:
    assert "Refund." in run(commands, sqlite, "list").out
    assert "Refund A1?" in run(commands, sqlite, "inbox").out
    assert run(commands, sqlite, "approve", "r", "--all").exit == 0
    assert "  ok  " in run(commands, sqlite, "verify").out
    assert run(commands, sqlite, "rotate").out == "1 text sealed\n"  # empty metadata
    assert run(commands, sqlite, "rotate").out == "0 texts sealed\n"
    rotated = run(commands, sqlite, "rotate", name="sealing:rotated")
    assert int(rotated.out.split()[0]) > 0
    assert "key 'k2'" in run(commands, sqlite, "list").err
    assert "Refund." in run(commands, sqlite, "list", name="sealing:rotated").out
    assert run(commands, sqlite, "erase", "--principal", "ana", name="sealing:rotated").exit == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "This text is sealed with the key 'k1': give `codec`."),
        ("no_such_module:codec", "cannot load the codec 'no_such_module:codec'"),
        ("sealing:missing", "cannot load the codec 'sealing:missing'"),
        (":", "cannot load the codec ':'"),
        ("sealing:KEYS", "'sealing:KEYS' is a dict, not a Codec"),
    ],
)
def test_a_codec_that_is_missing_or_wrong_is_named(
    commands: Handrail, sqlite: str, name: str | None, said: str
) -> None:
    ran = run(commands, sqlite, "list", name=name)
    assert ran.exit != 0
    assert said in ran.err


def test_a_key_changes_only_with_a_database_and_a_codec(commands: Handrail, sqlite: str) -> None:
    for place, name in ((sqlite, None), ("", "sealing:codec")):
        ran = run(commands, place, "rotate", name=name)
        assert (ran.exit, ran.out) == (2, "")
        assert "no database, or no codec, is named" in ran.err
