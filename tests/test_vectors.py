"""The security vectors, one test each, and the control that shows they can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vectors import schema

DATA = Path(__file__).parent / "data"
SCHEMA = json.loads((DATA / "vectors-schema.json").read_text(encoding="utf-8"))["vectors"]


@pytest.mark.parametrize("vector", SCHEMA, ids=lambda v: f"{v['id']} {v['title']}")
def test_a_hostile_call_is_held(vector: dict[str, Any]) -> None:
    assert schema.holds(vector)


def test_a_naive_parser_is_caught() -> None:
    assert schema.control_caught(SCHEMA) > 10
