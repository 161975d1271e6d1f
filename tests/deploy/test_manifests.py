"""The files in deploy/: a validator accepts them, and they agree with each other and with handrail."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from deploy.schemas import FILE

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDER = DEPLOY / "kubernetes"
SCHEMAS: Mapping[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
NAME = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
TRIGGER = {
    "type": "object",
    "required": ["type", "metadata"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["prometheus"]},
        "metadata": {
            "type": "object",
            "required": ["serverAddress", "query", "threshold"],
            "additionalProperties": {"type": "string"},
        },
    },
}
SCALED = {
    "type": "object",
    "required": ["scaleTargetRef", "triggers"],
    "additionalProperties": False,
    "properties": {
        "scaleTargetRef": NAME,
        "minReplicaCount": {"type": "integer"},
        "maxReplicaCount": {"type": "integer"},
        "triggers": {"type": "array", "items": TRIGGER},
    },
}
"""What KEDA's definition says about the fields that are used here."""
SCALED_OBJECT = {"properties": {"spec": SCALED}, "required": ["apiVersion", "metadata", "spec"]}
GRACE = 5
"""Seconds between the drain of a worker and its end."""


def read_all() -> Iterator[tuple[str, Any]]:
    for file in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            yield file.name, document


OBJECTS = tuple(read_all())


def validate(document: Any) -> None:
    """Raise ValidationError for an object that a cluster would not accept."""
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", document["apiVersion"])
    name = f"{document['kind'].lower()}-{group}"
    schema = SCALED_OBJECT if name == "scaledobject-keda-v1alpha1" else SCHEMAS["kinds"][name]
    jsonschema.Draft7Validator({**schema, "$defs": SCHEMAS["$defs"]}).validate(document)


def find(kind: str, name: str) -> Any:
    (found,) = [one for _, one in OBJECTS if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


@pytest.mark.parametrize(
    "document", [one for _, one in OBJECTS], ids=[f"{file}-{one['kind']}" for file, one in OBJECTS]
)
def test_a_validator_accepts_each_object(document: Any) -> None:
    validate(document)


def test_the_validator_finds_a_misspelt_field_a_wrong_type_and_a_missing_field() -> None:
    worker = find("Deployment", "handrail-worker")
    spec = ("spec", "template", "spec")
    wrong: list[tuple[tuple[Any, ...], str, Any]] = [
        (spec, "terminationGracePeriod", 40),
        (spec, "terminationGracePeriodSeconds", "40"),
        ((*spec, "containers", 0, "readinessProbe"), "httpGett", {}),
        ((*spec, "containers", 0), "name", None),
        (("spec",), "selector", None),
    ]
    for path, name, value in wrong:
        changed = at = copy.deepcopy(worker)
        for step in path:
            at = at[step]
        at.pop(name, None)
        if value is not None:
            at[name] = value
        with pytest.raises(jsonschema.ValidationError):
            validate(changed)


def list_pods() -> Iterator[tuple[str, Any]]:
    for _, one in OBJECTS:
        if one["kind"] in ("Deployment", "StatefulSet"):
            yield one["metadata"]["name"], one


def test_selectors_ports_volumes_and_targets_name_what_exists() -> None:
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in list_pods()}
    for name, one in list_pods():
        pod = one["spec"]["template"]["spec"]
        assert one["spec"]["selector"]["matchLabels"] == labels[name]
        claimed = [each["metadata"]["name"] for each in one["spec"].get("volumeClaimTemplates", ())]
        volumes = {each["name"] for each in pod["volumes"]} | set(claimed)
        mounted = {
            each["name"] for box in pod["containers"] for each in box.get("volumeMounts", ())
        }
        assert mounted == volumes
    for _, one in OBJECTS:
        name, spec = one["metadata"]["name"], one["spec"]
        if one["kind"] == "Service":
            boxes = find_pod(name)["containers"]
            ports = {port["name"] for box in boxes for port in box.get("ports", ())}
            assert (spec["selector"], spec["ports"][0]["targetPort"] in ports) == (
                labels[name],
                True,
            )
        elif one["kind"] == "PodDisruptionBudget":
            assert spec["selector"]["matchLabels"] == labels[name]
        elif "scaleTargetRef" in spec:
            assert spec["scaleTargetRef"]["name"] in labels


def find_pod(name: str) -> Any:
    return dict(list_pods())[name]["spec"]["template"]["spec"]


def test_each_part_has_probes_a_bound_on_memory_and_few_rights() -> None:
    for name, one in list_pods():
        pod = one["spec"]["template"]["spec"]
        (box,) = [each for each in pod["containers"] if each["image"] == "handrail-service"]
        rights = box["securityContext"]
        assert pod["automountServiceAccountToken"] is False
        assert (pod["securityContext"] | rights)["runAsNonRoot"] is True
        assert (rights["readOnlyRootFilesystem"], rights["capabilities"]) == (
            True,
            {"drop": ["ALL"]},
        )
        assert "memory" in box["resources"]["limits"]
        assert "readinessProbe" in box, name


def test_everything_waits_until_a_worker_has_drained() -> None:
    pod = find_pod("handrail-worker")
    args = pod["containers"][0]["args"]
    drain = int(args[args.index("--drain") + 1])
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    unit = (DEPLOY / "handrail-worker@.service").read_text(encoding="utf-8")
    stop = re.search(r"TimeoutStopSec=(\d+)", unit)
    assert stop is not None

    patience = [pod["terminationGracePeriodSeconds"], int(stop[1])]
    patience.append(int(compose["worker"]["stop_grace_period"].removesuffix("s")))
    assert [seconds > drain + GRACE for seconds in patience] == [True] * 3
    web = find_pod("handrail-web")
    streams = re.search(r"--timeout-graceful-shutdown (\d+)", read_start())
    assert streams is not None
    pause = int(web["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1])
    assert web["terminationGracePeriodSeconds"] > pause + int(streams[1])


def read_start() -> str:
    return (DEPLOY / "start").read_text(encoding="utf-8")


def test_each_part_starts_by_a_word_that_the_image_knows() -> None:
    words = re.findall(r"^  (\w+)\)$", read_start(), re.MULTILINE)
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]
    own = {name: one for name, one in compose.items() if one["image"] == "handrail-service"}

    assert sorted(words) == ["console", "gateway", "web", "worker"]
    assert {name: one["command"] for name, one in own.items()} == {name: [name] for name in words}
    assert {
        box["args"][0]
        for name, _ in list_pods()
        for box in find_pod(name)["containers"]
        if box["image"] == "handrail-service"
    } == set(words)


def test_only_what_people_call_has_a_port_in_compose() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services: dict[str, Any] = compose["services"]

    assert {name: one["ports"] for name, one in services.items() if "ports" in one} == {
        "web": ["8000:8000"],
        "gateway": ["8001:8000"],
        "proxy": ["443:443"],
    }
    volumes = [each.split(":")[0] for one in services.values() for each in one.get("volumes", ())]
    assert {each for each in volumes if each[0] not in ".$"} == set(compose["volumes"])
    before = services["worker"]["depends_on"]["database"]["condition"]
    assert (before, "healthcheck" in services["database"]) == ("service_healthy", True)
