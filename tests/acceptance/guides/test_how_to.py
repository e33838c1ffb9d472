"""The how-to guides, and the other pages with commands that need no account, typed line by line in
one project, as a reader does who follows them one after the other.

Real are tpuflex, the engine, its provider and the embedded cloud; its hosts run nothing and are
READY at once. Which lines are typed is read from tests/docs/typed_pages.py; what each has to show,
and what a reader has beforehand, stands here. A block of YAML is written into the stack file.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded_cloud import daemon
from tests.checkpoints import smollm2
from tests.docs.blocks import ROOT, Block, blocks
from tests.docs.typed_pages import HOW_TO, SHELL, untyped
from tests.engine.readme_shell import Shell, assert_shown
from tests.security.certificates import certificate
from tpuflex.engine.find import Engine
from tpuflex.stack.emulator import Daemon

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

COMMIT = "0123456789abcdef0123456789abcdef01234567"
#: What a line has in place of what only its reader knows.
FILLED = {"OWNER/tpuflex@COMMIT": f"acme/tpuflex@{COMMIT}"}
#: What asks before it goes on, in a terminal.
ASKS = (
    *("tpuflex --stack chat up", "tpuflex --stack chat down"),
    *("tpuflex --stack chat library up", "tpuflex --stack chat library up --region europe-west4"),
    "tpuflex --stack chat library down",
)
READY = "READY: a completion was served"
#: What stub hosts answer.
ANSWER = "The capital of France is Paris."
#: With a stack that is up, the same lines are those of test_down_many.py.
NONE_UP = "No stack of this project has a state: there is nothing to tear down."
SWEPT = "Nothing is left behind in tpuflex-dev: every service was asked."


#: By page, in the order in which they are followed: what each line shows; `…` stands for anything.
SHOWN: dict[str, dict[str, str]] = {
    "docs/how-to/README.md": {
        "tpuflex init --cloud embedded --stack chat": (
            "New stack chat in …\n  stacks/Pulumi.chat.yaml"
        ),
    },
    "docs/how-to/weights.md": {
        "tpuflex --stack chat weights push": "Pushed … files (…\nmanifest_sha256: …",
        "tpuflex --stack chat weights ls": "models/google-gemma-4-e4b-it/1  3 … complete",
        "tpuflex --stack chat weights verify": "models/google-gemma-4-e4b-it/1 matches its",
        "tpuflex --stack chat secrets put hf-token": "Added version 1 of hf-token.",
        "tpuflex --stack chat weights hash": "manifest_sha256: …",
        "tpuflex --stack chat weights rm models/google-gemma-4-e4b-it/1 --dry-run": (
            "To be removed from gs://…\n…3 files and the manifest…\nNothing was changed (--dry"
        ),
        "tpuflex --stack chat weights rm --unfinished --yes": "There is nothing to remove.",
        "tpuflex --stack chat weights rm --unused-for 30 --yes": (
            "Kept: models/google-gemma-4-e4b-it/1: it was used on …\nThere is nothing to remove."
        ),
        "tpuflex memory --model-dir models/gemma-4-E4B-it --accelerator v6e-1": "Verdict: fits",
        "tpuflex memory --model-dir models/gemma-4-E4B-it --row": "models:",
    },
    "docs/how-to/library.md": {
        "tpuflex --stack chat library up": "  us-east5  gs://tpuflex-library-…",
        "tpuflex --stack chat weights push": "Pushed 3 files (…\nmanifest_sha256: …",
        "tpuflex --stack chat weights ls": "models/google-gemma-4-e4b-it/tuned-2  3 … complete",
        "tpuflex --stack chat library status": (
            "The library of tpuflex-dev\nus-east5 … less than $0.01 a month …tpuflex-library-…\n"
            "us-east5  google/gemma-4-E4B-it  tuned-2"
        ),
        "tpuflex --stack chat library up --region europe-west4": (
            "  europe-west4  gs://tpuflex-library-…\n  us-east5 …"
        ),
        "tpuflex --stack chat library down --dry-run": (
            "To be deleted for good: the library of tpuflex-dev\n…\nNothing was changed (--dry"
        ),
        "tpuflex --stack chat library down": (
            "To be deleted for good: …\nNothing is left of the library of tpuflex-dev: its buckets"
        ),
    },
    "docs/how-to/renewal.md": {
        "tpuflex --stack chat up": READY,
        "tpuflex --stack chat up --renewal-only --yes": f"No changes: …\n{READY}",
        "tpuflex ci stacks --renewing --json": '  "stacks": []',
    },
    "docs/how-to/private-access.md": {
        'tpuflex --stack chat ask "What is a queued resource?"': ANSWER,
        'tpuflex --stack chat ask --max-tokens 32 --temperature 0.7 "Name a tree."': ANSWER,
        "tpuflex --stack chat client": "  model     google/gemma-4-E4B-it\n…\nhello.py\n…",
        "tpuflex --stack chat client -- python hello.py": "calls google/gemma-4-E4B-it at http://…",
        'eval "$(tpuflex --stack chat client --as env --show-key)"': "",
        'tpuflex --stack chat ask --url http://127.0.0.1:8000 "Are you there?"': ANSWER,
        "cat server.pem key.pem | tpuflex --stack chat secrets put tls-certificate": (
            "Added version 1 of tls-certificate."
        ),
        "tpuflex --stack chat up": READY,
        "tpuflex --stack chat secrets put api-key < keys.txt": "Added version 2 of api-key.",
    },
    "docs/how-to/troubleshooting.md": {
        "tpuflex --stack chat doctor": "None of … checks failed.",
        "tpuflex --stack chat status": "Stack chat: READY",
        "tpuflex --stack chat events": "TIME (UTC)\n…granted",
        "tpuflex --stack chat preview --refresh": "In the cloud, all is as the state has it.",
        "tpuflex --stack chat up --refresh": READY,
        "tpuflex engine": "* …",
    },
    "docs/ci.md": {
        "tpuflex ci init --source OWNER/tpuflex@COMMIT": (
            "written    .github/workflows/tpuflex-preview.yml\n"
            "written    .github/workflows/tpuflex-deploy.yml\n"
            "written    .github/workflows/tpuflex-renew.yml\n"
            "written    .github/workflows/tpuflex-drift.yml\n"
            "written    .github/workflows/tpuflex-sweep.yml"
        ),
    },
    "docs/how-to/teardown.md": {
        "tpuflex --stack chat down --dry-run": "To be destroyed: stack chat\n…queued resource",
        "tpuflex --stack chat down": "Nothing is left of stack chat: every service was asked.",
        "tpuflex down --all --dry-run": NONE_UP,
        "tpuflex down --older-than 12h --yes": NONE_UP,
        "tpuflex down --label tpuflex-stack=chat --yes": NONE_UP,
        "tpuflex --stack chat recover": "Nothing to recover: nothing is pending in stack chat.",
        "tpuflex sweep": SWEPT,
        "tpuflex sweep --yes": SWEPT,
        "tpuflex sweep --all --exit-code --json": '  "exit_code": 0,\n…"leftovers": []',
    },
    "docs/cost.md": {
        "tpuflex --stack first-proof cost": "  run           at most $1.35 per run",
        "tpuflex --stack first-proof cost"
        ' --tokens-per-second 900 --basis "our load test" --busy 40': (
            "  yours         $1.04 per million tokens [1] (900 tokens/s, our load test, busy 40%"
        ),
    },
    "docs/catalog.md": {
        "tpuflex catalog": "KIND … ROWS\naccelerators …",
        "tpuflex catalog prices": "REGION …\nSources",
        "tpuflex catalog models google/gemma-4-31B-it": "…max_context …262144",
    },
    "README.md": {
        "tpuflex recover": "Nothing to recover: nothing is pending in stack dev.",
        "tpuflex sweep": SWEPT,
    },
}


#: What guides name and the reader's cloud has not: a model's commit, the network of a team, and its
#: bucket (test_existing_network.py and test_existing_bucket.py make them).
ELSEWHERE = (
    "0123456789abcdef",
    "name: team",
    "networks/team",
    "gs://acme-models",
)

#: In place of a program with OpenAI's library.
HELLO = """\
import os
print("calls", os.environ["OPENAI_MODEL"], "at", os.environ["OPENAI_BASE_URL"])
"""


@dataclass
class Reader:
    """Somebody who follows the guides.

    Attributes:
        shell: where they type.
        endpoint: base URL of the endpoint.
    """

    shell: Shell
    endpoint: str = ""

    @property
    def root(self) -> Path:
        return self.shell.root

    def follow(self, page: str) -> None:
        """Type the lines of ``page``, and write its YAML, in the page's order."""
        mine = SHELL[page][HOW_TO]
        assert set(SHOWN[page]) == set(mine), f"{page}: what is each of its lines to show?"
        for block in (block for block in blocks("sh", "yaml") if block.page == page):
            if block.language == "yaml":
                if page.startswith("docs/how-to/"):
                    self.write(block)
                continue
            for line in block.lines():
                if line in mine:
                    assert_shown(SHOWN[page][line], self.type(line), line)

    def type(self, line: str) -> str:
        """Type ``line`` as its page prints it; returns all that it prints."""
        own = line.replace("http://127.0.0.1:8000", self.endpoint)
        for placeholder, value in FILLED.items():
            own = own.replace(placeholder, value)
        agreed = " --yes" if line in ASKS else ""
        value = "echo hf_0123456789 | " if line.endswith("put hf-token") else ""
        said = self.shell.type(f"{{ {value}{own}{agreed}; }} 2>&1", printed=line)
        if "weights hash" in line:
            self.set("model", weights={"manifest_sha256": said.split()[-1]})  # as the guide says
        if line.endswith("put tls-certificate"):
            self.remove("secrets")  # a stub host speaks no TLS: see acceptance/security/test_p5_tls
        for found in re.findall(r"^  endpoint +(\S+)/v1$", said, re.MULTILINE):
            self.endpoint = found
        return said

    def write(self, block: Block) -> None:
        """Write ``block`` into the sections of the stack file, as the guides say."""
        if any(each in block.text for each in ELSEWHERE):
            return
        for section, keys in yaml.safe_load(block.text)["config"].items():
            self.set(section.removeprefix("tpuflex:"), **keys)

    def set(self, section: str, **keys: Any) -> None:
        """Write ``keys`` into ``section`` of the stack file, beside what is there."""
        file = self.root / "stacks" / "Pulumi.chat.yaml"
        document = yaml.safe_load(file.read_text())
        there = document["config"].setdefault(f"tpuflex:{section}", {})
        for key, value in keys.items():
            there[key] = there.get(key, {}) | value if isinstance(value, dict) else value
        file.write_text(yaml.safe_dump(document, sort_keys=False))

    def remove(self, section: str) -> None:
        """Take ``section`` out of the stack file."""
        file = self.root / "stacks" / "Pulumi.chat.yaml"
        document = yaml.safe_load(file.read_text())
        del document["config"][f"tpuflex:{section}"]
        file.write_text(yaml.safe_dump(document, sort_keys=False))


@pytest.fixture
def reader(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Reader]:
    """Somebody with tpuflex on PATH, an empty directory, and what is large already there."""
    root = tmp_path / "guides"
    home = root / ".tpuflex"
    home.mkdir(parents=True, mode=0o700)
    path = f"{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"
    if pulumi_engine.source == "path":
        path += f":{pulumi_engine.path.parent}"
    else:
        (home / "engine").symlink_to(pulumi_engine.path.parents[1])
    image = ROOT / ".tpuflex" / "vllm"
    image.mkdir(parents=True, exist_ok=True)
    (home / "vllm").symlink_to(image)
    daemon.start(home / "emulator", port=0, stub_hosts=True)
    shell = Shell(root, {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8"})
    try:
        yield Reader(shell)
    finally:
        daemon.stop(home / "emulator")
        shutil.rmtree(root)


def left(home: Path) -> list[str]:
    """Kinds of what is in the cloud."""
    inventory: dict[str, dict[str, Any]] = Daemon(home).call("GET", "inventory")
    return [kind for kinds in inventory.values() for kind, found in kinds.items() if found]


def test_the_guides(reader: Reader) -> None:
    """Each line succeeds, in the order of its page and without any other, and shows what the page
    promises; at the end nothing is left."""
    root = reader.root
    models = root / "models"
    smollm2(layers=1, vocabulary=64).write(models / "gemma-4-E4B-it")
    smollm2(layers=1, vocabulary=32).write(models / "gemma-4-E4B-it-tuned")
    (root / "keys.txt").write_text("first-0123456789abcdef\nsecond-0123456789abcdef\n")
    (root / "hello.py").write_text(HELLO)
    pem, key = certificate()
    (root / "server.pem").write_text(pem)
    (root / "key.pem").write_text(key)
    # Where the tutorial ends, and a repository for CI.
    reader.shell.type("git init --quiet")
    reader.shell.type("tpuflex init --cloud embedded")

    for page in SHOWN:
        if page == "docs/cost.md":  # what the first deployment begins with
            reader.shell.type(
                "tpuflex init --template first-proof --stack first-proof"
                " --project acme-prod-1 --yes"
            )
        reader.follow(page)

    assert left(root / ".tpuflex") == []
    assert untyped(HOW_TO, reader.shell.typed) == []
