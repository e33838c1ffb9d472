"""What the settings are made of: their base class, refusals, and checked field types."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from tpuflex.duration import format_duration

#: pydantic's name of a :func:`refusal`; its context carries ``problem`` and ``remedy``.
REFUSED = "refused"

#: A wider range is as good as the whole internet, and a few of them are the whole.
WIDEST_PREFIX = 8
#: Google's limits for a subnetwork's primary range
#: (https://cloud.google.com/vpc/docs/subnets#ipv4-ranges).
SMALLEST_SUBNETWORK_PREFIX = 29


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


def bounded(
    *, least: tuple[timedelta, str] | None = None, most: tuple[timedelta, str] | None = None
) -> AfterValidator:
    """Refuses what is shorter than ``least`` or longer than ``most``, each with why."""

    def check(value: timedelta) -> timedelta:
        if most is not None and value > most[0]:
            raise refusal(
                f"{format_duration(value)} is longer than {most[1]}",
                f"Write {format_duration(most[0])} or less.",
            )
        if least is not None and value < least[0]:
            raise refusal(
                f"{format_duration(value)} is too short to {least[1]}",
                f"Write {format_duration(least[0])} or more.",
            )
        return value

    return AfterValidator(check)


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
ExtraFiles = Annotated[str, Field(max_length=200), AfterValidator(check_extra_files)]
