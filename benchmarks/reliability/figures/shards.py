"""Figure 13: shards that are cut short, altered or exchanged, in the bucket or on the host."""

from __future__ import annotations

import random
from collections.abc import Mapping

from reliability.figures.figure import Case, Figure, Result
from reliability.weights_host import PART_BYTES, Boot, WeightsHost

#: Of ten shards each.
CASES = 100

_REFUSAL = "weights-checksum: "

_KINDS = ("truncated", "bit flipped", "parts swapped")
PLACES = ("bucket", "host")


def _damaged(kind: str, content: bytes, chance: random.Random) -> bytes:
    """Other bytes than ``content``, as a broken push, a broken memory or a mix-up leaves them."""
    if kind == "truncated":
        return content[: chance.randrange(len(content))]
    if kind == "bit flipped":
        altered = bytearray(content)
        altered[chance.randrange(len(altered))] ^= 1 << chance.randrange(8)
        return bytes(altered)
    # Of a file with one part, the halves.
    length = PART_BYTES if len(content) > PART_BYTES else len(content) // 2
    parts = [content[at : at + length] for at in range(0, len(content), length)]
    one, two = chance.sample(range(len(content) // length), 2)
    parts[one], parts[two] = parts[two], parts[one]
    return b"".join(parts)


def damages(files: Mapping[str, bytes], chance: random.Random) -> dict[str, bytes]:
    """What ten shards of ``files`` become: two have each other's bytes, the others are cut short,
    altered in one bit, or have two of their parts exchanged."""
    shards = [path for path in files if path.endswith(".safetensors")]
    one, two, *others = chance.sample(shards, 10)
    return {one: files[two], two: files[one]} | {
        path: _damaged(_KINDS[number % len(_KINDS)], files[path], chance)
        for number, path in enumerate(others)
    }


def cases(_rig: WeightsHost, seed: int) -> list[Case]:
    """One case for each ten shards, in either place equally often."""
    return [
        Case(f"{number} in the {place}", {"seed": seed, "number": number, "place": place})
        for number in range(CASES)
        for place in (PLACES[number % len(PLACES)],)
    ]


def judge(rig: WeightsHost, case: Case) -> Result:
    """Damage ten shards and boot: nothing but the planned weights is served, and they are served
    once they are there again."""
    result = Result(case.name)
    facts = case.facts
    chance = random.Random(f"{facts['seed']} {facts['number']}")  # noqa: S311 - reproducible
    damaged = damages(rig.files, chance)
    result.struck = sum(content != rig.files[path] for path, content in damaged.items())
    result.wanted(result.struck == len(damaged), "rig", "a damage changes nothing")
    rig.forget()
    if facts["place"] == "bucket":
        for path, content in damaged.items():
            rig.put(path, content)
        first = rig.boot()
        _judge(rig, first, result)
        told = first.refused.startswith(_REFUSAL)
        result.wanted(told, "untyped", f"not refused as altered: {first.refused!r}")
        named = sorted(damaged.keys() & first.weights.keys())
        result.wanted(not named, "served", f"altered, and under their names: {named}")
        for path in damaged:
            rig.put(path, rig.files[path])
    else:
        rig.boot()
        for path, content in damaged.items():
            (rig.memory / path).write_bytes(content)
    last = rig.boot()
    _judge(rig, last, result)
    result.wanted(not last.refused, "not converged", f"not served: {last.refused}")
    return result


def _judge(rig: WeightsHost, boot: Boot, result: Result) -> None:
    """Whatever has the name of a file is that file, and a server finds all of them."""
    wrong = [path for path, content in boot.weights.items() if rig.files.get(path) != content]
    result.wanted(not wrong, "served", f"under their names: {wrong}; {boot.refused}")
    lacking = rig.files.keys() - boot.weights.keys()
    result.wanted(bool(boot.refused) or not lacking, "served", f"without {sorted(lacking)}")


FIGURE = Figure(
    key="13",
    counted=("served", "untyped", "not converged"),
    title="1,000 truncated, bit-flipped and swapped shards, in the bucket and on the host, ten at a"
    " time: none is served, and the planned ones are once they are there again",
    rig=WeightsHost,
    cases=cases,
    judge=judge,
    share=40,
    spare=10,
)
