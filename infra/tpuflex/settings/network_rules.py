"""Rules about the network: what one of yours can have, and what only one of the endpoint's own."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence

from tpuflex.errors import Finding
from tpuflex.settings.model import Draft, StackSettings
from tpuflex.settings.network import ExistingNetwork, NetworkSettings

_ZONES = "tpuflex:slice.zones"
_CIDRS = "tpuflex:network.subnetwork_cidrs"
#: After the last of all addresses a range is looked for from here on.
_FIRST, _LAST = int(ipaddress.IPv4Address("10.0.0.0")), 2**32 - 1


def region_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps a stack from having its zones in the regions where it has them."""
    if draft.slice is None:
        return
    regions = draft.slice.regions
    if len(regions) > 1:
        yield from _one_place(draft, regions)
    network = draft.network
    if network is None:
        return
    if network.subnetwork_cidrs and not network.makes_network:
        yield Finding(
            _CIDRS,
            "it would have no effect: the subnetwork is yours and has its range",
            "Remove it.",
        )
    elif network.makes_network:
        yield from _subnetworks(network, regions)


def _one_place(draft: Draft, regions: Sequence[str]) -> Iterator[Finding]:
    """What lies in one region, where the zones of ``regions`` need it in each."""
    several = f"the zones are in different regions ({', '.join(sorted(regions))})"
    if draft.model is not None and draft.model.weights.bucket != "library":
        yield Finding(
            _ZONES,
            f"{several}, but the weights lie in one region: tpuflex:model.weights.bucket is"
            f" {draft.model.weights.bucket}",
            "Write zones of one region; or keep the weights in the library, which has a bucket in"
            " each: tpuflex:model.weights.bucket: library.",
        )
    if draft.network is not None and not draft.network.makes_network:
        yield Finding(
            _ZONES,
            f"{several}, but tpuflex:network.subnetwork is in one region",
            "Write zones of one region; or leave out name and subnetwork of tpuflex:network: the"
            " stack then makes a subnetwork in each.",
        )
    if draft.encryption is not None and draft.encryption.kms_key is not None:
        yield Finding(
            _ZONES,
            f"{several}, but tpuflex:encryption.kms_key is in one place, and a disk takes a key of"
            " its own region only",
            "Write zones of one region, or remove the key.",
        )


def _subnetworks(network: NetworkSettings, regions: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with the ranges of further subnetworks."""
    cidrs = network.subnetwork_cidrs
    if elsewhere := sorted(cidrs.keys() - set(regions)):
        yield Finding(
            _CIDRS,
            f"no zone of tpuflex:slice.zones is in {', '.join(elsewhere)}",
            "Remove the range, or write a zone of that region.",
        )
        return
    lacking = [region for region in regions if region not in cidrs]
    if not lacking:
        yield Finding(
            _CIDRS,
            "it has a range for every region, but the stack's home has"
            " tpuflex:network.subnetwork_cidr",
            "Remove the range of the region where secrets and compiled programs are to be.",
        )
    elif len(lacking) > 1:
        wanted = {**cidrs, **_free(network, lacking[1:])}
        yield Finding(
            _CIDRS,
            f"is missing for {' or '.join(lacking)}: each region needs a range of its own, but for"
            " the one where secrets and compiled programs are to be, which cannot be changed later"
            " without making them anew",
            f"Write, for a stack at home in {lacking[0]}: "
            f"{{{', '.join(f'{region}: {cidr}' for region, cidr in wanted.items())}}}.",
        )
    yield from _overlaps({network.home(regions): network.subnetwork_cidr, **cidrs})


def _overlaps(ranges: Mapping[str, str]) -> Iterator[Finding]:
    """Ranges that have addresses in common, which one network cannot have."""
    seen: list[tuple[str, ipaddress.IPv4Network]] = []
    for region, cidr in ranges.items():
        mine = ipaddress.IPv4Network(cidr)
        for other, taken in seen:
            if mine.overlaps(taken):
                yield Finding(
                    _CIDRS,
                    f"{mine} of {region} has addresses of {taken}, which {other} has",
                    "Write ranges that have none in common.",
                )
        seen.append((region, mine))


def _free(network: NetworkSettings, regions: Sequence[str]) -> dict[str, str]:
    """A range for each of ``regions`` that nothing of ``network`` has: those that follow its
    subnetwork's, of the same size."""
    block = ipaddress.IPv4Network(network.subnetwork_cidr)
    taken = [block, *map(ipaddress.IPv4Network, network.subnetwork_cidrs.values())]
    found: dict[str, str] = {}
    for region in regions:
        while any(block.overlaps(each) for each in taken):
            following = int(block.network_address) + block.num_addresses
            if following > _LAST:
                following = _FIRST
            block = ipaddress.IPv4Network((following, block.prefixlen))
        taken.append(block)
        found[region] = str(block)
    return found


_KEY = "tpuflex:network"


def network_findings(draft: Draft) -> Iterator[Finding]:
    """What keeps the network of a stack from being what its settings say."""
    network = draft.network
    if network is None:
        return
    if (network.name is None) != (network.subnetwork is None):
        there, lacking = ("subnetwork", "name") if network.name is None else ("name", "subnetwork")
        yield Finding(
            f"{_KEY}.{lacking}",
            f"is missing, and {there} is there",
            "Write both for a network of yours, or neither.",
        )
    elif network.name is None:
        yield from _own(network)
    if not network.manage_firewall and network.allowed_cidrs:
        yield Finding(
            f"{_KEY}.allowed_cidrs",
            "it would have no effect: with manage_firewall: false no rule is made",
            "Remove it, and let the clients in by a rule of your network; or write"
            " manage_firewall: true.",
        )
    if draft.project is not None and draft.slice is not None:
        region = network.home(draft.slice.regions)
        existing = network.existing(draft.project, region)
        if existing is not None:
            yield from _existing(network, existing, draft.project, region)


def network_warnings(settings: StackSettings) -> Iterator[Finding]:
    """What a network of one's own making may lack."""
    network = settings.network
    if not network.ssh or not network.manage_firewall:
        key = "ssh" if network.manage_firewall else "manage_firewall"
        yield Finding(
            f"{_KEY}.{key}",
            "no firewall rule of the endpoint lets SSH in, which `tunnel`, `ssh`, `logs --follow`"
            " and, without allowed_cidrs, `ask` need",
            "Use the endpoint from within the network; or have a rule of it let 35.235.240.0/20"
            " (IAP) reach port 22 of the hosts.",
        )


def _own(network: NetworkSettings) -> Iterator[Finding]:
    """What a network of the endpoint's own cannot be without."""
    if network.egress == "existing":
        yield Finding(
            f"{_KEY}.egress",
            "existing is for a network of yours: one of the endpoint's own leads nowhere",
            f"Write google or internet, or name your network in {_KEY}.name.",
        )
    if not network.manage_firewall:
        yield Finding(
            f"{_KEY}.manage_firewall",
            "false is for a network of yours: nobody makes rules in one of the endpoint's own",
            f"Remove it, or name your network in {_KEY}.name.",
        )


def _existing(
    network: NetworkSettings, existing: ExistingNetwork, project: str, region: str
) -> Iterator[Finding]:
    """What a network that is there already does not allow."""
    if f"/regions/{region}/" not in existing.subnetwork:
        yield Finding(
            f"{_KEY}.subnetwork",
            f"{existing.subnetwork} is not in {region}, the region of tpuflex:slice.zones",
            "Write a subnetwork of that region.",
        )
    if not existing.subnetwork.startswith(f"projects/{existing.project}/"):
        yield Finding(
            f"{_KEY}.subnetwork",
            f"it is in another project than {existing.network}",
            "Write network and subnetwork of one project.",
        )
    if network.subnetwork_cidr != NetworkSettings().subnetwork_cidr:
        yield Finding(
            f"{_KEY}.subnetwork_cidr",
            "it would have no effect: the subnetwork is yours and has its range",
            "Remove it.",
        )
    if network.egress == "google":
        yield Finding(
            f"{_KEY}.egress",
            "google needs private DNS zones, which would change Google's names for everything else"
            " in a network of yours",
            "Write existing; or internet, which makes NAT for the subnetwork.",
        )
    if existing.project != project:
        yield from _of_a_host_project(network, existing.project)


def _of_a_host_project(network: NetworkSettings, host: str) -> Iterator[Finding]:
    """What is made in the project of a network only, where no teardown of the stack looks."""
    if network.egress == "internet":
        yield Finding(
            f"{_KEY}.egress",
            f"NAT for a network of {host} belongs into that project",
            "Write existing, and have NAT made there.",
        )
    if network.manage_firewall:
        yield Finding(
            f"{_KEY}.manage_firewall",
            f"firewall rules for a network of {host} belong into that project",
            f"Write false, and have rules made there; network tags for them go to {_KEY}.tags.",
        )
