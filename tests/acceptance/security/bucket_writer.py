"""A bucket writer's changes, one after the other, to a set of weights that was pushed; and the
host's own functions, run on each of them in one shell."""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.startup.cloud import PREFIX, manifest_of, ranged
from tpuflex.boot.metadata import startup_script
from tpuflex.catalog.weight_formats import allowed_patterns

#: What was pushed.
FILES = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"], "eos_token_id": 2}',
    "chat_template.jinja": b"{% for message in messages %}{{ message.content }}{% endfor %}",
    "tokenizer.json": json.dumps({"model": {"vocab": {str(n): n for n in range(200)}}}).encode(),
    "model-1.safetensors": random.Random(1).randbytes(5 * 4096 + 100),  # noqa: S311
    "nested/model-2.safetensors": bytes(reversed(range(256))) * 7,
}
MANIFEST = "MANIFEST.json"
#: Of a part: the first shard has six.
PART_BYTES = 4096

Objects = dict[str, bytes]


def pushed() -> Objects:
    """The objects as a push leaves them, by their path below the prefix."""
    return {**FILES, MANIFEST: json.dumps(manifest_of(FILES, PART_BYTES), indent=1).encode()}


@dataclass(frozen=True)
class Change:
    """One change by a bucket writer.

    Attributes:
        what: it, in words.
        objects: the bucket afterwards.
        file: the file that was changed; empty if it was the manifest.
    """

    what: str
    objects: Objects
    file: str = ""


def changes(seed: int) -> Iterator[Change]:
    """Two hundred of them: 120 to single bytes, 80 to names."""
    chance = random.Random(seed)  # noqa: S311 - the same changes in every run
    for _ in range(60):
        what, text = one_byte(chance, pushed()[MANIFEST])
        yield Change(f"{what} of the manifest", {**pushed(), MANIFEST: text})
    for _ in range(40):
        yield renamed_with_manifest(chance)
    for _ in range(60):
        path = chance.choice(list(FILES))
        what, content = one_byte(chance, FILES[path])
        yield Change(f"{what} of {path}", {**pushed(), path: content}, path)
    for _ in range(40):
        yield renamed(chance)


def one_byte(chance: random.Random, text: bytes) -> tuple[str, bytes]:
    """``text`` with one byte replaced, inserted or taken away."""
    at, byte = chance.randrange(len(text)), chance.randrange(256)
    how = chance.choice(["replace", "insert", "delete"])
    if how == "replace":
        byte ^= text[at] == byte
        return f"byte {at} replaced", text[:at] + bytes([byte]) + text[at + 1 :]
    if how == "insert":
        return f"byte inserted at {at}", text[:at] + bytes([byte]) + text[at:]
    return f"byte {at} deleted", text[:at] + text[at + 1 :]


def renamed_with_manifest(chance: random.Random) -> Change:
    """A file under another name, or another file under its name, and a manifest that agrees."""
    files = dict(FILES)
    path = chance.choice(list(files))
    name = f"{chance.getrandbits(32):08x}"
    how = chance.choice(["code", "pickle", "rename", "swap", "replace"])
    if how == "swap":
        other = chance.choice([each for each in files if each != path])
        files[path], files[other] = files[other], files[path]
    elif how == "rename":
        files[f"{name}.json"] = files.pop(path)
    elif how == "replace":
        files[path] = f"another {path}, {name}".encode()
    else:
        files[f"{name}.py" if how == "code" else f"pytorch_model-{name}.bin"] = b"import os"
    text = json.dumps(manifest_of(files, PART_BYTES), indent=1).encode()
    return Change(f"{how} of {path} ({name}), with its manifest", {**files, MANIFEST: text})


def renamed(chance: random.Random) -> Change:
    """A file that is gone from its name, or another one in its place; the manifest is as it was."""
    objects = pushed()
    path = chance.choice(list(FILES))
    content = objects.pop(path)
    letters = list(path)
    at = chance.randrange(len(letters))
    letters[at] = chance.choice("abcxyz0189_-") if letters[at] != "_" else "a"
    name = "".join(letters)
    if name == path or chance.random() < 0.5:
        other = chance.choice([each for each in FILES if each != path])
        return Change(f"{other} in the place of {path}", {**objects, path: FILES[other]}, path)
    return Change(f"{path} renamed to {name}", {**objects, name: content}, path)


def changed_parts() -> Iterator[Change]:
    """The shard of several parts with each of them flipped, cut, left out, doubled, emptied, or
    exchanged for its neighbour, and with bytes after its end."""
    path = "model-1.safetensors"
    whole = FILES[path]
    parts = [whole[at : at + PART_BYTES] for at in range(0, len(whole), PART_BYTES)]
    for number, part in enumerate(parts):
        before, after = parts[:number], parts[number + 1 :]
        ways = {
            "flipped": [*before, part[:-1] + bytes([part[-1] ^ 1]), *after],
            "cut": [*before, part[:-1], *after],
            "cut off after": [*before, part[:1]],
            "left out": [*before, *after],
            "doubled": [*before, part, part, *after],
            "emptied": [*before, bytes(len(part)), *after],
            "exchanged": [*before, *after[:1], part, *after[1:]] if after else [*parts, b"more"],
        }
        for way, changed in ways.items():
            objects = {**pushed(), path: b"".join(changed)}
            yield Change(f"part {number} {way}", objects, path)


@dataclass
class Buckets:
    """Cloud Storage with a bucket ``case-N`` for each change, and ``case-pushed``, on loopback."""

    cases: list[Change]

    def __enter__(self) -> str:
        buckets = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                self.answer(*buckets.answer(self.path, self.headers.get("Range", "")))

            def answer(self, status: int, body: bytes, content_range: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Content-Range", content_range)
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, asked: str) -> tuple[int, bytes, str]:
        """The answer to a request for an object."""
        bucket, _, name = urlsplit(path).path.removeprefix("/storage/v1/b/").partition("/o/")
        case = bucket.removeprefix("case-")
        objects = pushed() if case == "pushed" else self.cases[int(case)].objects
        content = objects.get(unquote(name).removeprefix(f"{PREFIX}/"))
        return (404, b"", "") if content is None else ranged(content, asked)


#: The host's functions, and what they say of each case; the pauses and reports that they make on
#: the way are left out, and the token, which the server does not ask for.
_DRIVER = r"""
set +e
trap - ERR
pause() { :; }
report() { :; }
detail() { :; }
log() { :; }
authorize() { :; }
export -f pause report detail log authorize
mkdir -p "$STATE_DIR" "$MEMORY_DIR"
: >"$AUTHORIZATION"
SETTINGS[weights.id]=$1 SETTINGS[weights.prefix]=PREFIX SETTINGS[weights.manifest]=MANIFEST.json
SETTINGS[weights.manifest_sha256]=SHA256 SETTINGS[timeouts.ready_s]=1
SETTINGS[commands.weights]='tpuflex weights push' SETTINGS[weights.parallelism]=4
formats=(FORMATS)
SETTINGS[weights.formats.count]=${#formats[@]}
for index in "${!formats[@]}"; do SETTINGS[weights.formats.$index]=${formats[index]}; done
weights_directories
manifest_of() {
    SETTINGS[weights.bucket]=case-$1
    SETTINGS[weights.manifest_url]="b/case-$1/o/ENCODED%2FMANIFEST.json?alt=media"
    (set -e; wait_for_manifest)
}
manifest_of pushed || echo 'what was pushed is refused'
python3 - "$STATE_DIR/weights.records" "$2" "$STATE_DIR/cases.records" <<'PYTHON'
import json
import sys

pushed = {record["path"]: record for record in json.load(open(sys.argv[1]))}
cases = []
for line in open(sys.argv[2]):
    number, _, path = line.strip().partition(" ")
    record = dict(pushed[path], path=f"{number}/{path}", flat=f"{number}-{pushed[path]['flat']}")
    record["url"] = record["url"].replace("case-pushed", f"case-{number}")
    cases.append(record)
json.dump(cases, open(sys.argv[3], "w"))
PYTHON
while read -r case; do
    manifest_of "$case" && echo "accepted $case"
done
fetch_files "$STATE_DIR/cases.records"
cut --fields=2 "$STATE_DIR/weights.problems" | sed 's|/.*||; s/^/refused /'
(cd "$WEIGHTS_DIR" && find . -type f -printf '%P\n') | sed 's|/.*||; s/^/served /'
"""


def served(cases: list[Change], directory: Path) -> list[str]:
    """What the host's functions accept of ``cases``, or say that they should not; in words."""
    said = _said(cases, directory)
    refused = {line for line in said if line.startswith("refused ")}
    silent = [n for n, case in enumerate(cases) if case.file and f"refused {n}" not in refused]
    said = [line for line in said if line not in refused]
    said += [f"no problem told in {n}" for n in silent if f"served {n}" not in said]
    return [
        f"{line}: {cases[int(line.split()[-1])].what}" if line.split()[-1].isdigit() else line
        for line in said
    ]


def _said(cases: list[Change], directory: Path) -> list[str]:
    script = startup_script().rstrip().removesuffix('main "$@"')
    driver = (
        _DRIVER.replace("PREFIX", PREFIX, 1)
        .replace("ENCODED", PREFIX.replace("/", "%2F"))
        .replace("SHA256", hashlib.sha256(pushed()[MANIFEST]).hexdigest())
        .replace("FORMATS", " ".join(f"'{each}'" for each in allowed_patterns()))
    )
    (directory / "script").write_text(script + driver)
    (directory / "cases").write_text(
        "".join(f"{n} {case.file}\n" for n, case in enumerate(cases) if case.file)
    )
    (directory / "bin").mkdir()
    (directory / "bin" / "python3").symlink_to(sys.executable)
    with Buckets(cases) as url:
        done = subprocess.run(
            ["/bin/bash", str(directory / "script"), "set-of-weights", str(directory / "cases")],
            env={
                "PATH": f"{directory / 'bin'}:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "TPUFLEX_ROOT": str(directory / "root"),
                "STORAGE_EMULATOR_HOST": url,
                "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            },
            input="".join(f"{n}\n" for n, case in enumerate(cases) if not case.file),
            stdout=subprocess.PIPE,
            text=True,
            timeout=600,
            check=True,
        )
    return done.stdout.splitlines()
