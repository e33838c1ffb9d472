"""Serving settings as arguments of ``python3 -m vllm.entrypoints.openai.api_server``.

Names and meaning are vLLM 0.32.0's (`vllm serve --help=all`). Model, served name, host and
port are not here: the startup script adds them, because it alone knows where they are.
"""

from __future__ import annotations

import json

from tpuflex.settings.serving import ServingFlags


def serving_args(flags: ServingFlags, chips: int) -> tuple[str, ...]:
    """The arguments for ``flags`` on a slice with ``chips`` chips, in the order of the fields.

    A flag that is not set is not passed, so vLLM's default holds; only the tensor parallel
    size follows the chips, because vLLM's own default of 1 would leave all others idle.
    """
    values = flags.model_dump(exclude_none=True)
    if flags.tensor_parallel_size is None and chips > 1:
        values = {"tensor_parallel_size": chips, **values}
    arguments: list[str] = []
    for field, value in values.items():
        name = field.replace("_", "-")
        if value is True:
            arguments.append(f"--{name}")
        elif value is False:
            arguments.append(f"--no-{name}")
        elif isinstance(value, dict):
            arguments += [f"--{name}", json.dumps(value, sort_keys=True, separators=(",", ":"))]
        else:
            arguments += [f"--{name}", str(value)]
    return tuple(arguments)
