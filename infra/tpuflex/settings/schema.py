"""The JSON Schema of the stack file, for editors and for people.

``python -m tpuflex.settings.schema`` writes ``docs/stack.schema.json``; with ``--check`` its
exit code says whether the file is up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tpuflex.settings.model import NAMESPACE, StackSettings

SCHEMA_FILE = Path(__file__).parents[3] / "docs" / "stack.schema.json"


def stack_file_schema() -> dict[str, object]:
    """The schema of ``Pulumi.<stack>.yaml``; keys of other namespaces are left alone."""
    sections = StackSettings.model_json_schema()
    definitions = sections.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "tpuflex stack file",
        "description": sections["description"],
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {
                "type": "object",
                "required": [f"{NAMESPACE}{name}" for name in sections["required"]],
                "properties": {
                    f"{NAMESPACE}{name}": value for name, value in sections["properties"].items()
                },
                "patternProperties": {f"^(?!{NAMESPACE})[^:]+:.+$": {}},
                "additionalProperties": False,
            },
            "encryptionsalt": {"type": "string"},
            "encryptedkey": {"type": "string"},
            "secretsprovider": {"type": "string"},
        },
        "additionalProperties": False,
        "$defs": definitions,
    }


def rendered() -> str:
    """The text of ``docs/stack.schema.json``."""
    return json.dumps(stack_file_schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the schema file, or with ``--check`` compare it; 1 when it is out of date."""
    text = rendered()
    if "--check" in arguments:
        current = SCHEMA_FILE.read_text(encoding="utf-8") if SCHEMA_FILE.exists() else ""
        if current == text:
            return 0
        sys.stderr.write(f"{SCHEMA_FILE} is out of date: run python -m tpuflex.settings.schema\n")
        return 1
    SCHEMA_FILE.parent.mkdir(exist_ok=True)
    SCHEMA_FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
