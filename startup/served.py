"""Which vLLM serves, and how large its KV cache is, from what the server itself says.

Run by the startup script with answers of ``/version`` and ``/metrics`` in files:
``served.py version FILE FLOOR`` prints the version, or ends with a message if it is older than
``FLOOR``; ``served.py kv-cache FILE`` prints one JSON object.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

#: Bound on what a server may make this program read; its metrics are some 100 KiB.
ANSWER_BYTES = 1024 * 1024
#: A version as packages have it: https://packaging.python.org/en/latest/specifications/version-specifiers/
VERSION = re.compile(r"(\d{1,6}(?:\.\d{1,6}){0,3})([0-9A-Za-z.+_-]{0,80})")
_PRE_RELEASE = re.compile(r"[._-]?(?:a|b|c|rc|alpha|beta|pre|preview|dev)\d*")
#: Begins at the first letter of a name only, so that no text is looked through twice.
_LABEL = re.compile(r'(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"')


def release(version: str) -> tuple[tuple[int, ...], bool]:
    """What orders versions: the numbers, then whether it is more than a pre-release of them.

    A version that cannot be read counts as 0, which no floor but 0 admits.
    """
    match = VERSION.fullmatch(version)
    if match is None:
        return (0, 0, 0, 0), True
    numbers = [int(number) for number in match[1].split(".")]
    padded = tuple(numbers + [0] * (4 - len(numbers)))
    return padded, _PRE_RELEASE.match(match[2]) is None


def checked_version(answer: str, floor: str) -> str:
    """The version in the server's answer.

    Raises:
        ValueError: it has none, or one below ``floor``.
    """
    try:
        document = json.loads(answer)
    except RecursionError:
        document = None
    version = document.get("version") if isinstance(document, dict) else None
    if not isinstance(version, str) or not re.fullmatch(r"[!-~]{1,100}", version):
        raise ValueError("the server does not say which vLLM it is")
    if release(version) < release(floor):
        raise ValueError(
            f"the image serves with vLLM {version}, which is older than {floor} and has known "
            "security holes; write another image at tpuflex:serving.image"
        )
    return version


def kv_cache(metrics: str) -> dict[str, object]:
    """The KV cache of the first engine, by the labels of ``vllm:cache_config_info``.

    ``{"block_size", "num_blocks", "cache_dtype", "tokens"}``; null is what the server does not
    say. Empty without the metric.
    """
    line = re.search(r"^vllm:cache_config_info\{(.*)\} ", metrics, re.MULTILINE)
    if line is None:
        return {}
    labels = dict(_LABEL.findall(line[1]))
    dtype = labels.get("cache_dtype", "")
    return {
        "block_size": _number(labels, "block_size"),
        "num_blocks": _number(labels, "num_gpu_blocks"),
        "cache_dtype": dtype if re.fullmatch(r"\w{1,40}", dtype, re.ASCII) else None,
        "tokens": _number(labels, "kv_cache_size_tokens"),
    }


def _number(labels: dict[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def main() -> int:
    """See above."""
    what, file, *floor = sys.argv[1:]
    try:
        with Path(file).open(encoding="utf-8", errors="replace") as answer:
            text = answer.read(ANSWER_BYTES)
        said = checked_version(text, *floor) if what == "version" else json.dumps(kv_cache(text))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
