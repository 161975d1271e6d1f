"""Fails unless the sandbox works that the action needs, as `handrail doctor` sees it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from job import child_environment, log

CHECKS = {"bubblewrap": "bubblewrap", "any": "sandbox"}
"""The check of `handrail doctor` for each value of the input `sandbox`, except `none`."""


def main() -> int:
    """Return the exit code of the step."""
    wanted = os.environ.get("INPUT_SANDBOX", "bubblewrap")
    if wanted == "none":
        return 0
    if wanted not in CHECKS:
        log("handrail: sandbox must be bubblewrap, any or none")
        return 2
    done = subprocess.run(  # noqa: S603
        [Path(os.environ["ACTION_BIN"], "handrail"), "doctor", "--json", "--quiet"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=child_environment(),
        check=False,
    )
    if not done.stdout:
        log(f"handrail doctor failed with exit code {done.returncode}")
        return 1
    check = json.loads(done.stdout)["checks"][CHECKS[wanted]]
    log(f"{CHECKS[wanted]}: {check['status']}, {check['found']}")
    if check["status"] == "ok":
        return 0
    log(check["remedy"])
    return 1


if __name__ == "__main__":
    sys.exit(main())
