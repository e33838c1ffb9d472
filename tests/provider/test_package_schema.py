"""What `GetSchema` answers with."""

from __future__ import annotations

import json
from typing import Any

from tpuflex.naming import QUEUED_RESOURCE, VLLM_ENDPOINT
from tpuflex.provider.schema import package_schema
from tpuflex.request.fields import INPUTS, RequestArgs


def referred(kind: dict[str, Any]) -> str | None:
    """The type that ``kind`` is, or is a list or a mapping of."""
    inside = kind.get("items") or kind.get("additionalProperties")
    return kind.get("$ref") or (referred(inside) if inside else None)


class TestPackageSchema:
    """What `GetSchema` answers with."""

    def test_it_holds_every_input_at_every_depth(self) -> None:
        """Each input and each field inside of one has a type and a text; each type is defined."""
        schema = json.loads(package_schema())
        resource = schema["resources"][QUEUED_RESOURCE]

        assert set(resource["inputProperties"]) == INPUTS
        defined = {f"#/types/{token}" for token in schema["types"]}
        component = schema["resources"][VLLM_ENDPOINT]
        groups = [resource["inputProperties"], resource["properties"]] + [
            group["properties"] for group in schema["types"].values() if "enum" not in group
        ]
        groups += [function["outputs"]["properties"] for function in schema["functions"].values()]
        groups += [component["inputProperties"], component["properties"]]
        used = set()
        for group in groups:
            for name, text in group.items():
                assert text["description"], name
                reference = referred(text)
                used |= {reference} - {None, "pulumi.json#/Any"}
                assert reference or text["type"], name
        assert used == defined

    def test_required_is_what_has_no_default(self) -> None:
        """A program must say what nothing can be made of; an object what it cannot be without."""
        schema = json.loads(package_schema())

        resource = schema["resources"][QUEUED_RESOURCE]
        assert resource["requiredInputs"] == ["runtimeVersion", "serviceAccount", "zones"]
        assert schema["types"]["tpuflex:tpu:DataDisk"]["required"] == ["sourceDisk"]
        assert schema["types"]["tpuflex:tpu:MultiNode"]["required"] == ["nodeCount"]
        size = schema["types"]["tpuflex:tpu:BootDisk"]["properties"]["diskSizeGb"]
        assert size["type"] == "integer"

    def test_every_field_of_the_model_is_described(self) -> None:
        """No field goes without a text."""
        for name, field in RequestArgs.model_fields.items():
            assert field.description, name
