"""The large packages of pulumi-gcp are loaded class by class."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: What a deployment loads of pulumi-gcp after `load`.
DEPLOYED = """
from tests.components.pulumi_plan import run_program
from tests.unit.stack_sections import sections
from tpuflex.program import deploy, load
from tpuflex.settings.load import parse

load(by_class=True)
before = set(sys.modules)
settings = parse(sections({"network": {"egress": EGRESS}}), "test")
run_program(lambda: deploy(settings, project="p", stack="s", environ={}))
say(sorted(name for name in set(sys.modules) - before if name.startswith("pulumi_gcp.")))
"""

#: What the package has for others, and which of its modules are loaded with that.
TOUCHED = """
from types import ModuleType
from pulumi_gcp import storage
from tpuflex.by_class import load_by_class

load_by_class(storage)
value = getattr(storage, NAME, None)
say({
    "from": getattr(value, "__module__", None),
    "same": getattr(storage, NAME, None) is value,
    "whole": type(storage) is ModuleType,
    "others": "pulumi_gcp.storage.hmac_key" in sys.modules,
})
"""

#: A package of which a module is missing.
BROKEN = """
from pulumi_gcp import storage
from tpuflex.by_class import load_by_class

load_by_class(storage)
sys.modules["pulumi_gcp.storage.hmac_key"] = None
missed = []
for _ in range(2):
    try:
        storage.NotificationArgs
    except ImportError as error:
        missed.append(error.name)
say([missed, storage.Bucket.__name__])
"""

#: What all threads see that touch a package at once.
THREADS = """
from threading import Barrier, Thread
from pulumi_gcp import storage
from tpuflex.by_class import load_by_class

load_by_class(storage)
found, begin = [], Barrier(4)
def touch(name):
    begin.wait()
    found.append(getattr(storage, name).__module__)
names = ("get_bucket", "BucketArgs", "HmacKey", "get_bucket_object")
threads = [Thread(target=touch, args=(name,)) for name in names]
sys.setswitchinterval(1e-5)
for thread in threads: thread.start()
for thread in threads: thread.join()
say(sorted(found))
"""


def said(script: str, **words: str) -> object:
    """What ``script`` says in an interpreter of its own, where nothing is loaded yet."""
    names = "".join(f"{name} = {word!r}\n" for name, word in words.items())
    begin = f"import json, sys\nsay = lambda found: print(json.dumps(found))\n{names}"
    shown = subprocess.run(
        [sys.executable, "-c", begin + script], capture_output=True, check=True, cwd=ROOT
    )
    return json.loads(shown.stdout)


@pytest.mark.parametrize(
    ("egress", "later"),
    [
        ("google", []),
        ("internet", ["pulumi_gcp.compute.router", "pulumi_gcp.compute.router_nat"]),
    ],
)
def test_a_deployment_loads_what_it_uses(egress: str, later: list[str]) -> None:
    """Nothing is left to load while the engine waits, but for what few endpoints have; a package
    that was loaded as a whole would show."""
    assert said(DEPLOYED, EGRESS=egress) == later


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("Bucket", "pulumi_gcp.storage.bucket"),
        ("BucketIAMMember", "pulumi_gcp.storage.bucket_iam_member"),
        ("BucketVersioningArgs", "pulumi_gcp.storage._inputs"),
    ],
)
def test_a_class_comes_with_its_own_module(name: str, module: str) -> None:
    """A resource, also one with an acronym in its name, and the type of a nested input."""
    assert said(TOUCHED, NAME=name) == {
        "from": module,
        "same": True,
        "whole": False,
        "others": False,
    }


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("BucketArgs", "pulumi_gcp.storage.bucket"),
        ("get_bucket", "pulumi_gcp.storage.get_bucket"),
        ("GetBucketResult", "pulumi_gcp.storage.get_bucket"),
        ("Bucketful", None),
    ],
)
def test_all_else_comes_with_the_whole_package(name: str, module: str | None) -> None:
    """What has no module of its name is looked for where the SDK has it; nobody misses anything."""
    assert said(TOUCHED, NAME=name) == {
        "from": module,
        "same": True,
        "whole": True,
        "others": True,
    }


def test_a_package_that_misses_a_module_says_so_each_time() -> None:
    """Nobody gets half of it; its other classes are there."""
    assert said(BROKEN) == [["pulumi_gcp.storage.hmac_key"] * 2, "Bucket"]


def test_threads_wait_until_all_of_a_package_is_loaded() -> None:
    """None of them sees it without what it asked for."""
    assert said(THREADS) == [
        "pulumi_gcp.storage.bucket",
        "pulumi_gcp.storage.get_bucket",
        "pulumi_gcp.storage.get_bucket_object",
        "pulumi_gcp.storage.hmac_key",
    ]
