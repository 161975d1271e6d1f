"""The GitHub Action: its file, its installer, its check of the sandbox, and its page."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from action_steps import ROOT, STEPS, fake, inputs, manifest, step, variable
from cli_harness import Handrail

PAGE = ROOT / "docs" / "cli" / "github-action.md"


def injections(document: Any) -> list[str]:
    """Return the scripts of a workflow or an action that contain an expression."""
    if isinstance(document, dict):
        own = [document["run"]] if "${{" in str(document.get("run", "")) else []
        return own + injections(list(document.values()))
    return (
        [found for one in document for found in injections(one)]
        if isinstance(document, list)
        else []
    )


def test_no_script_contains_an_expression() -> None:
    assert injections(manifest()) == []


def test_an_expression_in_a_script_would_be_found() -> None:
    script = 'echo "${{ inputs.prompt }}"'
    assert injections({"steps": [{"run": script, "env": {"A": "${{ inputs.a }}"}}]}) == [script]


def test_every_input_and_output_is_used_under_its_own_name() -> None:
    steps = manifest()["runs"]["steps"]
    given = {
        (name, value)
        for one in steps
        for name, value in one["env"].items()
        if name.startswith("INPUT_")
    }
    elsewhere = {"working-directory"}
    assert given == {
        (variable(one), f"${{{{ inputs.{one} }}}}") for one in inputs().keys() - elsewhere
    }
    assert {one.get("working-directory") for one in steps} == {
        None,
        "${{ inputs.working-directory }}",
    }
    programs = "".join(
        file.read_text(encoding="utf-8") for file in STEPS.iterdir() if file.is_file()
    )
    assert [name for name, _ in given if name not in programs] == []
    for name, output in manifest()["outputs"].items():
        assert output["value"] == f"${{{{ steps.run.outputs.{name} }}}}"
        assert f'"{name}"' in programs
    scripts = [re.findall(r"deploy/action/([\w.]+)", one["run"]) for one in steps]
    assert scripts == [["install.sh"], ["check.py"], ["run.py"]]
    assert [name for [name] in scripts if not (STEPS / name).exists()] == []


INSTALLS = """
import json, os, sys
program = os.path.realpath(__file__)
with open(os.path.dirname(program) + "/record", "a") as file:
    file.write(json.dumps([sys.argv[1:], sorted(os.environ), os.getcwd()]) + "\\n")
if "venv" in sys.argv:
    os.makedirs(sys.argv[-1] + "/bin")
    os.symlink(program, sys.argv[-1] + "/bin/python")
"""


@pytest.mark.parametrize(
    ("model", "more", "extras"),
    [
        ("anthropic:any", "", "cli,coding,anthropic"),
        ("openai-chat:any", "mcp,console-jwt", "cli,coding,openai,mcp,console-jwt"),
        ("gemini:any", "", "cli,coding,google"),
        ("m.py:model", "", "cli,coding"),
    ],
)
def test_it_installs_its_own_checkout_without_keys(
    handrail: Handrail, model: str, more: str, extras: str
) -> None:
    python = fake(handrail, "python", INSTALLS) / "python"
    env = {"INPUT_MODEL": model, "INPUT_EXTRAS": more, "INPUT_PYTHON": str(python)}
    env |= {"ANTHROPIC_API_KEY": "x", "GITHUB_TOKEN": "x", "PIP_INDEX_URL": "x"}

    ran = step(handrail, "install.sh", env)

    lines = (handrail.folder / "fake" / "record").read_text(encoding="utf-8").splitlines()
    arguments, environments, folders = zip(*map(json.loads, lines), strict=True)
    place = Path(ran.outputs["bin"]).parents[1]
    assert (ran.exit, ran.log) == (0, "")
    assert arguments[1:] == (
        ["-I", "-m", "venv", f"{place}/venv"],
        [
            *("-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--constraint", f"{ROOT}/constraints.txt", f"{ROOT}[{extras}]"),
        ],
    )
    for environment in environments:
        assert {"PATH", "HOME", "PIP_INDEX_URL"} <= set(environment)
        assert not {"ANTHROPIC_API_KEY", "GITHUB_TOKEN", "INPUT_MODEL"} & set(environment)
    assert set(folders) == {str(place)}  # outside the workspace
    assert place.parent == handrail.folder / "temp"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            {"INPUT_EXTRAS": "mcp] @ https://evil.example/x["},
            "extras must be names with commas between them, such as mcp,openapi",
        ),
        ({"INPUT_PYTHON": "false"}, "Python 3.11 or later is needed: see actions/setup-python"),
    ],
)
def test_it_refuses_to_install_other_things(
    handrail: Handrail, env: dict[str, str], message: str
) -> None:
    assert step(handrail, "install.sh", env) == (2, f"handrail: {message}\n", {}, "")


def test_the_installer_is_a_valid_program() -> None:
    assert os.access(STEPS / "install.sh", os.X_OK)
    subprocess.run(["bash", "-n", str(STEPS / "install.sh")], check=True)  # noqa: S603, S607


def test_the_sandbox_is_checked(handrail: Handrail) -> None:
    ran = step(handrail, "check.py")

    assert (ran.exit, ran.log) == (0, "bubblewrap: ok, works\n")


def test_a_command_that_cannot_check_ends_the_step(handrail: Handrail) -> None:
    ran = step(handrail, "check.py", commands=fake(handrail, "handrail", "raise SystemExit(2)"))

    assert (ran.exit, ran.log) == (1, "handrail doctor failed with exit code 2\n")


@pytest.mark.parametrize(
    ("wanted", "code", "lines"),
    [
        ("bubblewrap", 1, ["bubblewrap: warn, gone # #[add-mask]x", ": :add-mask: :y"]),
        ("any", 1, ["sandbox: fail, no", "get one"]),
        ("none", 0, []),
        ("other", 2, ["handrail: sandbox must be bubblewrap, any or none"]),
    ],
)
def test_a_missing_sandbox_ends_the_step(
    handrail: Handrail, wanted: str, code: int, lines: list[str]
) -> None:
    checks = {
        "bubblewrap": {
            "status": "warn",
            "found": "gone\r\n##[add-mask]x",
            "remedy": "::add-mask::y",
        },
        "sandbox": {"status": "fail", "found": "no", "remedy": "get one"},
    }
    program = fake(handrail, "handrail", f"print({json.dumps({'checks': checks})!r})")

    ran = step(handrail, "check.py", {"INPUT_SANDBOX": wanted}, commands=program)

    assert (ran.exit, ran.log.splitlines()) == (code, lines)


def workflows() -> list[dict[Any, Any]]:
    """Return the workflows of the page."""
    return [
        yaml.safe_load(one)
        for one in re.findall(r"(?s)```text title=\"[\w./-]+yml\"\n(.*?)```", page())
    ]


def page() -> str:
    """Return the page about the action."""
    return PAGE.read_text(encoding="utf-8")


def test_the_workflows_of_the_page_are_safe() -> None:
    jobs = [job for flow in workflows() for job in flow["jobs"].values()]

    assert injections(workflows()) == []
    assert [flow["permissions"] for flow in workflows()] == [{}, {}, {}]
    assert [[*map(":".join, job["permissions"].items())] for job in jobs] == [
        ["contents:read"],
        ["pull-requests:write"],
        ["contents:read", "pull-requests:read"],
        ["contents:read"],
        ["contents:write"],
    ]
    for job in jobs:
        steps = {one.get("uses", "").partition("@")[0]: one for one in job["steps"]}
        if "OWNER/handrail" not in steps:
            continue
        assert [one for one in job["permissions"].values() if one != "read"] == []
        assert steps["actions/checkout"]["with"]["persist-credentials"] is False
        assert "ref" not in steps["actions/checkout"]["with"]
        assert steps["OWNER/handrail"]["with"].keys() <= inputs().keys()
        assert {name for name, one in inputs().items() if one.get("required")} == {"model"}
        assert "model" in steps["OWNER/handrail"]["with"]


def rows(title: str) -> list[list[str]]:
    """Return the rows of the table below a heading of the page."""
    _, _, section = page().partition(f"\n## {title}\n")
    table = section.partition("\n## ")[0]
    cells = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    return [[cell.strip().replace("`", "") for cell in row] for row in cells]


def test_the_page_lists_every_input_and_output() -> None:
    in_words = {"max-turns": "50", "allow-hosts": "no network"}
    defaults = [
        [name, in_words.get(name, one.get("default", ""))] for name, one in inputs().items()
    ]
    assert [[row[0], row[-1]] for row in rows("Inputs")] == defaults
    assert [row[0] for row in rows("Outputs")] == [*manifest()["outputs"]]


def test_the_summary_has_a_word_for_every_exit_code_of_a_run() -> None:
    text = (PAGE.with_name("run.md")).read_text(encoding="utf-8")
    table = text.partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    codes = re.findall(r"\d+", " ".join(re.findall(r"(?m)^\| ([\d, ]+) \|", table)))
    words = (STEPS / "summary.py").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^    (\d+): \"", words) == codes
