"""The coding agent's container image: built without a registry, and used without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.containers import ALONE, MARKS, building, call

EXTRAS = "acp,anthropic,cli,coding,google,mcp,openai"
FLAGS = {
    "landlock": [],
    "bubblewrap": ["--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL"],
}
"""What the container may do, by the sandbox that works inside."""

MODEL = """
from handrail import Call
from handrail.testing import ScriptedModel

COMMAND = "echo made >made.txt; touch ~/outside 2>/dev/null || echo closed $(cat .git/HEAD)"
model = ScriptedModel([Call("bash", {"command": COMMAND}, "c1")], "Done.")
"""

pytestmark = MARKS


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("image")
    with building("coding", EXTRAS, ("bubblewrap", "git"), folder) as made:
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    call("git", "init", "--quiet", "--initial-branch=trunk", tmp_path)
    tmp_path.chmod(0o777)  # the agent's user in the container is another one
    return tmp_path


@pytest.fixture
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder outside the project: commands may not change the code of a model."""
    folder = tmp_path_factory.mktemp("model")
    folder.chmod(0o755)
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    return f"{folder}:/model:ro"


def chat(image: str, project: Path, model: str, *flags: str) -> str:
    mounts = ("-v", f"{project}:/work", "-v", model)
    asked = ("run", "-m", "/model/model.py:model", "--mode", "open", "Make a file.")
    return call(*ALONE, *flags, *mounts, image, *asked)


@pytest.mark.parametrize("tier", FLAGS)
def test_a_run_in_the_container(image: str, project: Path, model: str, tier: str) -> None:
    printed = chat(image, project, model, *FLAGS[tier])
    assert "closed ref: refs/heads/trunk" in printed, "a command wrote outside the project"
    assert "Done." in printed
    assert (project / "made.txt").read_text(encoding="utf-8") == "made\n"
    report = "from handrail.sandbox import Sandbox; print(Sandbox('/work').report().tier)"
    asked = (*ALONE, *FLAGS[tier], "-v", f"{project}:/work", "--entrypoint", "python", image)
    assert call(*asked, "-c", report).strip() == tier


def test_the_home_folder_is_kept_in_a_volume(image: str, project: Path, model: str) -> None:
    name = "handrail-test-home"
    kept = ("-v", f"{name}:/home/agent")
    try:
        chat(image, project, model, *kept)
        listed = call(*ALONE, *kept, "-v", f"{project}:/work", image, "runs", "list")
    finally:
        call("podman", "volume", "rm", "--force", name)
    assert "Make a file." in listed
    assert "Make a file." not in call(*ALONE, "-v", f"{project}:/work", image, "runs", "list")
