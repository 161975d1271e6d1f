"""How many files a process can have open."""

from __future__ import annotations

import resource

from handrail.net import count_files
from handrail.net._files import allow_files


def test_a_low_limit_is_raised_as_far_as_the_system_permits() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = list[int]()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        for wanted in (600, 100, 1 << 40):
            allow_files(wanted)
            found.append(count_files())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert found == [600, 600, hard]
