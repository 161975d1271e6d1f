"""The coding agent's container image: built without a registry, and used without a network."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("podman", "runc", "mmdebstrap")
EXTRAS = "acp,anthropic,cli,coding,google,mcp,openai"
OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
RUN = [*("podman", "--runtime", "runc", "run", "--rm", "--network=none"),
       *("--ulimit", f"nofile={OPEN_FILES}:{OPEN_FILES}", "--ulimit", "nproc=4096:4096")]  # fmt: skip
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

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        sys.platform != "linux" or not all(map(shutil.which, NEEDED)),
        reason=f"needs {', '.join(NEEDED)}",
    ),
]


def call(*argv: str | Path) -> str:
    """Run a program to its end; return what it printed."""
    ended = subprocess.run(  # noqa: S603 - the words are the test's own
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("image")
    wheels = folder / "wheels"
    call(*(sys.executable, "-m", "pip", "download", "--quiet", "--dest", wheels),
         *("-c", "constraints.txt", f".[{EXTRAS}]", "hatchling"))  # fmt: skip
    pip = folder / "pip.conf"
    pip.write_text("[global]\nno-index = true\nfind-links = /wheels\n", encoding="utf-8")
    base, made = "localhost/handrail-test-base", "localhost/handrail-test-coding"
    call("deploy/base_image", base, "bubblewrap", "git")
    call(*("podman", "build", "--quiet", "--isolation=chroot", "--build-arg", f"BASE={base}"),
         *("--volume", f"{wheels}:/wheels:ro", "--volume", f"{pip}:/etc/pip.conf:ro"),
         *("--tag", made, "--file", "deploy/coding/Containerfile", "."))  # fmt: skip
    yield made
    call("podman", "rmi", "--force", made, base)


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
    return call(*RUN, *flags, *mounts, image, *asked)


@pytest.mark.parametrize("tier", FLAGS)
def test_a_run_in_the_container(image: str, project: Path, model: str, tier: str) -> None:
    printed = chat(image, project, model, *FLAGS[tier])
    assert "closed ref: refs/heads/trunk" in printed, "a command wrote outside the project"
    assert "Done." in printed
    assert (project / "made.txt").read_text(encoding="utf-8") == "made\n"
    report = "from handrail.sandbox import Sandbox; print(Sandbox('/work').report().tier)"
    asked = (*RUN, *FLAGS[tier], "-v", f"{project}:/work", "--entrypoint", "python", image)
    assert call(*asked, "-c", report).strip() == tier


def test_the_home_folder_is_kept_in_a_volume(image: str, project: Path, model: str) -> None:
    name = "handrail-test-home"
    kept = ("-v", f"{name}:/home/agent")
    try:
        chat(image, project, model, *kept)
        listed = call(*RUN, *kept, "-v", f"{project}:/work", image, "runs", "list")
    finally:
        call("podman", "volume", "rm", "--force", name)
    assert "Make a file." in listed
    assert "Make a file." not in call(*RUN, "-v", f"{project}:/work", image, "runs", "list")
