"""Schemas of Kubernetes objects: ``python -m deploy.schemas WHEEL`` writes the part that the manifests need.

WHEEL is the package `kubernetes-validate`, with the schemas of each version from Kubernetes' own
OpenAPI document (Apache-2.0). Unknown fields are errors in them.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

FILE = Path(__file__).parents[1] / "data" / "kubernetes-1.37.json"
_FOLDER = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict"
_KINDS = (
    *("deployment-apps-v1", "statefulset-apps-v1", "service-v1"),
    *("poddisruptionbudget-policy-v1", "horizontalpodautoscaler-autoscaling-v2"),
)


def list_refs(schema: object) -> Iterator[str]:
    """The definitions that a schema names."""
    if isinstance(schema, Mapping):
        for name, value in cast("Mapping[str, Any]", schema).items():
            if name == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            else:
                yield from list_refs(value)
    elif isinstance(schema, list):
        for one in cast("list[Any]", schema):
            yield from list_refs(one)


def reduce_schema(schema: Any) -> Any:
    """A schema without what only people read."""
    if isinstance(schema, list):
        return [reduce_schema(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return schema
    reduced: dict[str, Any] = {}
    for name, value in cast("Mapping[str, Any]", schema).items():
        if name == "properties":
            reduced[name] = {key: reduce_schema(one) for key, one in value.items()}
        elif name == "$ref":
            reduced[name] = "#/$defs/" + value.rpartition("/")[2]
        elif not name.startswith("x-") and name not in ("description", "format", "$schema", "$id"):
            reduced[name] = reduce_schema(value)
    return reduced


def read_wheel(wheel: Path) -> dict[str, Any]:
    """The schemas by kind, and the definitions they need."""
    with zipfile.ZipFile(wheel) as files:
        known = json.loads(files.read(f"{_FOLDER}/_definitions.json"))["$defs"]
        kinds = {name: json.loads(files.read(f"{_FOLDER}/{name}.json")) for name in _KINDS}
    wanted, found = list(list_refs(list(kinds.values()))), dict[str, Any]()
    while wanted:
        if (name := wanted.pop()) not in found:
            found[name] = known[name]
            wanted += list_refs(known[name])
    return {
        "kinds": {name: reduce_schema(schema) for name, schema in kinds.items()},
        "$defs": {name: reduce_schema(found[name]) for name in sorted(found)},
    }


if __name__ == "__main__":
    text = json.dumps(read_wheel(Path(sys.argv[1])), separators=(",", ":"))
    FILE.write_text(text + "\n", encoding="utf-8")
