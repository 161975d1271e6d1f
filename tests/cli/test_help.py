"""Help: of every command, the same in the documents, and with no surprise between them."""

from __future__ import annotations

import importlib.util
import re
from importlib import import_module
from pathlib import Path

import pytest

from cli_harness import Handrail, commands
from handrail_cli._tree import ROOT

HERE = Path(__file__).parent
_COMMON = ("workspace", "output", "json", "color", "no_input", "quiet", "strict_config", "debug")


def entry(words: tuple[str, ...]) -> tuple[str, str]:
    """A command's row in the tree: its module, and one line."""
    found = ROOT
    for word in words[:-1]:
        found = found[word][0]
    return found[words[-1]]


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
    module, line = entry(words)

    command = import_module(module).command

    assert command.short_help == line
    assert command.name in {words[-1], module.rpartition("_")[2]}


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_every_command_has_the_common_options_and_help_for_all_of_its_own(
    words: tuple[str, ...],
) -> None:
    parameters = import_module(entry(words)[0]).command.params

    options = [one for one in parameters if one.param_type_name == "option"]
    assert {one.name for one in options} >= set(_COMMON)
    assert [one.name for one in options if not one.help] == []
    assert [one.help for one in options if not re.search(r"[.?]\)?$", one.help)] == []
    names = [name for one in options for name in [*one.opts, *one.secondary_opts]]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("words", [*commands()], ids=" ".join)
def test_the_help_of_a_command_fits_on_80_columns(
    handrail: Handrail, words: tuple[str, ...]
) -> None:
    ran = handrail(*words, "-h")

    assert (ran.exit, ran.err) == (0, "")
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []
