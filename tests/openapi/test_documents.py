"""Real documents: each becomes tools without a finding of lint. tests/data/openapi lists them."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest

from handrail import READ, lint
from handrail.openapi import tools
from openapi.service import Answer, Service, call, on_loopback

pytestmark = pytest.mark.anyio
FOLDER = Path(__file__).parents[1] / "data" / "openapi"
DOCUMENTS = sorted(path.name.removesuffix(".json.xz") for path in FOLDER.glob("*.json.xz"))
COUNTS = {
    "airflow": 128,
    "airflow-auth": 4,
    "airflow-ui": 24,
    "bitbucket": 6,
    "galaxy": 9,
    "jupyterlab": 12,
    "litellm": 5,
    "parameter-styles": 25,
    "petstore": 20,
    "petstore-31": 20,
    "readme": 54,
    "readme-legacy": 36,
    "star-trek": 120,
    "uspto": 3,
}
"""The operations of each."""
FOUND = {"star-trek": {"token-cost": 1}}
"""What lint finds in one of the largest: a form with more than a hundred fields. Nothing is found in
the others."""


def read(name: str) -> dict[str, Any]:
    text = lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes())
    document: dict[str, Any] = json.loads(text)
    return document


def test_every_document_is_listed() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")

    assert list(COUNTS) == DOCUMENTS
    assert all(f"| `{name}` |" in readme for name in DOCUMENTS)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_becomes_tools_without_findings(name: str) -> None:
    made = tools(read(name), Service().client, server="https://api.test")
    rules: dict[str, int] = {}
    for finding in lint(made):
        rules[finding.rule] = rules.get(finding.rule, 0) + 1

    assert (len(made), rules) == (COUNTS[name], FOUND.get(name, {}))
    paths = read(name)["paths"].values()
    methods = [method for item in paths for method in item if method in ("get", "head")]
    assert sum(tool.spec.effect == READ for tool in made) == len(methods)


async def test_one_of_them_is_called_end_to_end() -> None:
    pet = b'{"id": 7, "name": "Rex", "photoUrls": []}'
    kind = {"Content-Type": "application/json"}
    with on_loopback(Answer(200, pet, kind), Answer(200, b"[]", kind)) as (url, received, client):
        made = tools(read("petstore-31"), client, server=f"{url}/v2")
        found = await call(made, {"petId": 7}, "get_pet_by_id")
        listed = await call(made, {"status": ["sold", "pending"]}, "find_pets_by_status")
        wrong = await call(made, {"petId": "Rex"}, "get_pet_by_id")

    assert (found.data, listed.data) == ('{"id":7,"name":"Rex","photoUrls":[]}', "[]")
    assert wrong.text.startswith("Not run: invalid arguments.\n- petId: expected an integer")
    assert [one[:2] for one in received] == [
        ("GET", "/v2/pet/7"),
        ("GET", "/v2/pet/findByStatus?status=sold&status=pending"),
    ]
