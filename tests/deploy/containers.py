"""Images built without a registry, and programs in containers without a network."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEEDED = ("podman", "runc", "mmdebstrap")
OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
RUN = [*("podman", "--runtime", "runc", "run", "--rm"),
       *("--ulimit", f"nofile={OPEN_FILES}:{OPEN_FILES}", "--ulimit", "nproc=4096:4096")]  # fmt: skip
ALONE = [*RUN, "--network=none"]
MARKS = [
    pytest.mark.soak,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        sys.platform != "linux" or not all(map(shutil.which, NEEDED)),
        reason=f"needs {', '.join(NEEDED)}",
    ),
]


def call(*argv: str | Path) -> str:
    """Run a program to its end; return what it printed."""
    ended = subprocess.run(  # noqa: S603 - the words are the tests' own
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@contextmanager
def building(target: str, extras: str, packages: tuple[str, ...], folder: Path) -> Iterator[str]:
    """Yield the name of an image from deploy/Containerfile, on a new base with these packages."""
    wheels = folder / "wheels"
    call(*(sys.executable, "-m", "pip", "download", "--quiet", "--dest", wheels),
         *("-c", "constraints.txt", f".[{extras}]", "hatchling"))  # fmt: skip
    pip = folder / "pip.conf"
    pip.write_text("[global]\nno-index = true\nfind-links = /wheels\n", encoding="utf-8")
    made = f"localhost/handrail-test-{target}"
    base = f"{made}-base"
    call("deploy/base_image", base, *packages)
    call(*("podman", "build", "--quiet", "--isolation=chroot", "--build-arg", f"BASE={base}"),
         *("--volume", f"{wheels}:/wheels:ro", "--volume", f"{pip}:/etc/pip.conf:ro"),
         *("--target", target, "--tag", made, "--file", "deploy/Containerfile", "."))  # fmt: skip
    yield made
    call("podman", "rmi", "--force", made, base)
