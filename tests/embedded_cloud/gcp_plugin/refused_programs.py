"""Programs that the gcp stand-in refuses, run in a process of their own.

A failed run of an inline program leaves the Automation API's event loop and connections open,
which must not happen in the process that runs the tests.

    python refused_programs.py PROGRAM PROJECT
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pulumi
import pulumi_gcp as gcp
from pulumi import automation


def other_type() -> None:
    """A type that is not served."""
    gcp.pubsub.Topic("topic")


def other_property() -> None:
    """A property that the published class has and the stand-in does not serve."""
    gcp.storage.Bucket(
        "bucket",
        name="b-ucket",
        location="US",
        enable_object_retention=True,
    )


def mismatched_import() -> None:
    """An import of a bucket that is elsewhere."""
    gcp.storage.Bucket(
        "bucket",
        name="their-bucket",
        location="EU",
        opts=pulumi.ResourceOptions(import_="their-bucket"),
    )


PROGRAMS: dict[str, Callable[[], None]] = {
    program.__name__: program for program in (other_type, other_property, mismatched_import)
}


def main(name: str, project: str) -> int:
    """Deploy the program ``name``; the engine's output goes to standard output."""
    stack = automation.create_or_select_stack(name, project_name="refused", program=PROGRAMS[name])
    stack.set_config("gcp:project", automation.ConfigValue(project))
    try:
        stack.up(on_output=print)
    except automation.CommandError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
