"""Ranges of addresses: what they reach together does not depend on how they are written."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from tpuflex.policy.network_rules import MOST_V4, reach_of

networks = st.builds(
    lambda address, prefix: ipaddress.ip_network((address, prefix), strict=False),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
)


@given(st.lists(networks, max_size=6))
def test_order_and_repetition_count_for_nothing(ranges: list[object]) -> None:
    """The same ranges in another order, or twice, reach the same."""
    texts = list(map(str, ranges))

    assert reach_of([*reversed(texts), *texts]) == reach_of(texts)


@given(networks.filter(lambda network: network.prefixlen < 32))
def test_halves_reach_what_the_whole_reaches(network: ipaddress.IPv4Network) -> None:
    """A range and its two halves are one."""
    assert reach_of(map(str, network.subnets())) == reach_of([str(network)])


@given(networks)
def test_the_same_range_as_ipv6(network: ipaddress.IPv4Network) -> None:
    """An IPv4 range that is written as IPv6 counts as what it is."""
    mapped = f"::ffff:{network.network_address}/{96 + network.prefixlen}"

    assert reach_of([mapped]) == reach_of([str(network)])


@given(st.lists(networks, max_size=4), networks)
def test_more_ranges_reach_no_less(
    ranges: list[ipaddress.IPv4Network], another: ipaddress.IPv4Network
) -> None:
    """Another range never makes an open rule narrow."""
    texts = list(map(str, ranges))

    assert reach_of([*texts, str(another)]).public_v4 >= reach_of(texts).public_v4


@given(st.text(max_size=30))
def test_any_text_is_a_range_or_named(text: str) -> None:
    """No text is passed over: it reaches something, or is named as unreadable."""
    reach = reach_of([text])

    assert reach.unreadable in ((), (text,))


def test_a_network_of_the_largest_kind_is_still_narrow() -> None:
    """A /8 of public addresses is the most that a rule may let in."""
    assert reach_of(["8.0.0.0/8"]).public_v4 == MOST_V4
    assert not reach_of(["8.0.0.0/8"]).open
    assert reach_of(["8.0.0.0/8", "9.0.0.1/32"]).open
