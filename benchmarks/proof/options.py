"""What `make prove-on-google` is told."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

from tpuflex.scaffold.shipped_stacks import shipped_names

ROOT = Path(__file__).resolve().parents[2]
_PROJECT = re.compile(r"[a-z][a-z0-9-]{4,28}[a-z0-9]")
_ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to run, where, and what it may cost.

    Attributes:
        cloud: where it runs; on the embedded cloud it is a rehearsal, and proves nothing.
        project: Google Cloud project.
        zone: zone of the slice.
        cap_usd: what all of it may cost, in US dollars.
        template: the stack that it begins with, of those that come with tpuflex.
        weights: directory of the model's files; empty for the one that the template names, below
            the checkout.
        tier: ``run`` for the slice, ``free`` for the calls that need no quota and cost nothing.
        give_up_after: how long to wait for capacity, as a duration.
        directory: where project and evidence are written; new for each run.
    """

    cloud: Literal["google", "embedded"]
    project: str
    zone: str
    cap_usd: Decimal
    template: str
    weights: str
    tier: Literal["run", "free"]
    give_up_after: str
    directory: Path


def options(arguments: Sequence[str], directory: Path) -> Options:
    """Read the command line.

    Raises:
        SystemExit: with 2, if it is wrong; says what to write.
    """
    parser = argparse.ArgumentParser(
        prog="make prove-on-google",
        description="Prove on Google what can only be proved there; always takes everything down.",
    )
    parser.add_argument("--project", type=_project, required=True, help="PROJECT=… of make")
    parser.add_argument("--zone", type=_zone, required=True, help="ZONE=… of make")
    parser.add_argument("--cap-usd", type=_dollars, default=None, help="CAP_USD=… of make")
    parser.add_argument("--template", choices=shipped_names(), default="first-proof")
    parser.add_argument("--weights", default="", help="directory of the model's files")
    parser.add_argument("--tier", choices=("run", "free"), default="run")
    parser.add_argument("--cloud", choices=("google", "embedded"), default="google")
    parser.add_argument("--give-up-after", default="2h", help="how long to wait for capacity")
    given = parser.parse_args(arguments)
    if given.tier == "run" and given.cap_usd is None:
        parser.error("CAP_USD is missing: what may the run cost, in US dollars? CAP_USD=2 will do")
    return Options(
        cloud=given.cloud,
        project=given.project,
        zone=given.zone,
        cap_usd=given.cap_usd or Decimal(0),
        template=given.template,
        weights=str(Path(given.weights).resolve()) if given.weights else "",
        tier=given.tier,
        give_up_after=given.give_up_after,
        directory=directory,
    )


def _project(text: str) -> str:
    if not _PROJECT.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no project id: write PROJECT=my-project-id")
    return text


def _zone(text: str) -> str:
    if not _ZONE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no zone: write ZONE=us-east5-a")
    return text


def _dollars(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount in US dollars: write CAP_USD=2")
    return amount
