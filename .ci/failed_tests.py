"""A plugin of pytest: write the name of each failed test to the file that `FAILED_TESTS` names."""

import os
from pathlib import Path

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a failure in any phase of a test."""
    if report.failed:
        with Path(os.environ["FAILED_TESTS"]).open("a", encoding="utf-8") as file:
            file.write(report.nodeid + "\n")
