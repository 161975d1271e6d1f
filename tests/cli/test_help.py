"""Help: of every command, the same in the documents, and with no surprise between them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import click
import pytest

from cli_harness import Handrail, command_at, commands, groups

HERE = Path(__file__).parent
_COMMON = ("workspace", "output", "json", "color", "no_input", "quiet", "strict_config", "debug")


def test_the_reference_has_the_help_of_every_command_as_it_is(handrail: Handrail) -> None:
    spec = importlib.util.spec_from_file_location("reference", HERE / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)

    written = reference.PAGE.read_text(encoding="utf-8")

    assert written == reference.page(handrail), "run: python tests/cli/reference.py"


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_the_line_in_the_list_is_that_of_the_command(words: tuple[str, ...]) -> None:
    command, line = command_at(words)

    assert command.short_help == line
    assert command.name == words[-1]
    assert len(line) <= 80
    assert (line[0].isupper(), line[-1]) == (True, ".")


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_every_command_has_the_common_options_and_help_for_all_of_its_own(
    words: tuple[str, ...],
) -> None:
    command, _ = command_at(words)

    options = [one for one in command.params if isinstance(one, click.Option)]
    assert {one.name for one in options} >= set(_COMMON)
    assert [one.name for one in options if not one.help] == []
    arguments = [one for one in command.params if isinstance(one, click.Argument)]
    assert [one.name for one in arguments if not one.help] == []
    assert [one.help for one in options if not re.search(r"[.?]\)?$", one.help)] == []
    names = [name for one in options for name in [*one.opts, *one.secondary_opts]]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("words", [*groups()], ids=" ".join)
def test_each_command_of_a_group_takes_one_row(handrail: Handrail, words: tuple[str, ...]) -> None:
    listed = handrail(*words, "-h").out.partition("Commands:\n")[2]

    assert [row for row in listed.splitlines() if not row.endswith(".")] == []


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_the_help_of_a_command_fits_on_80_columns(
    handrail: Handrail, words: tuple[str, ...]
) -> None:
    ran = handrail(*words, "-h")

    assert (ran.exit, ran.err) == (0, "")
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []
