"""The startup script where the weights are in several regions: a host takes those of its own."""

from __future__ import annotations

import pytest

from tests.startup.host import StartupHost

BUCKETS = {"us-east5": "bucket-2", "europe-west4": "bucket-1"}


def of_regions(host: StartupHost, buckets: object = BUCKETS) -> None:
    """Let the configuration of ``host`` name buckets by region."""
    weights = host.config()["weights"] | {"bucket": "bucket-1", "buckets": buckets}
    host.cloud.config = host.config(weights=weights)


def buckets_read(host: StartupHost) -> set[str]:
    """The buckets from which ``host`` has read a manifest or weights."""
    paths = (each.partition("/storage/v1/b/")[2] for each in host.cloud.requests)
    return {path.partition("/")[0] for path in paths if "/models" in path or "MANIFEST" in path}


@pytest.mark.parametrize(
    ("zone", "bucket"), [("us-east5-b", "bucket-2"), ("europe-west4-a", "bucket-1")]
)
def test_weights_come_from_the_bucket_of_the_hosts_region(
    host: StartupHost, zone: str, bucket: str
) -> None:
    """The zone that the metadata server names decides: the same document serves in each region."""
    of_regions(host)
    host.cloud.zone = zone

    run = host.run()

    assert run.status == 0, run.output
    assert host.cloud.last("phase") == "READY"
    assert buckets_read(host) == {bucket}


@pytest.mark.parametrize(
    ("zone", "buckets", "said"),
    [
        ("asia-east1-c", BUCKETS, "no bucket for asia-east1, where this host is; it has: europe"),
        (None, BUCKETS, "no bucket for no region"),
        ("us-east5-a", {"us-east5": "Not A Bucket"}, "no bucket for us-east5"),
        ("us-east5-a", {"us-east5": 1}, "no bucket for us-east5"),
        ("us-east5-a", [], "no bucket for us-east5, where this host is; it has: none"),
    ],
)
def test_a_region_without_a_bucket_is_refused(
    host: StartupHost, zone: str | None, buckets: object, said: str
) -> None:
    """A host that cannot tell where its weights are reads none from elsewhere, and says why."""
    of_regions(host, buckets)
    host.cloud.zone = zone

    run = host.run()

    assert run.status != 0
    assert host.cloud.last("error").startswith("config: ")
    assert said in host.cloud.last("error")
    assert buckets_read(host) == set()


def test_a_host_of_one_region_needs_no_zone(host: StartupHost) -> None:
    """Where the document names one bucket, what the metadata server says of the zone is nothing
    that a boot waits for."""
    host.cloud.zone = None

    assert host.run().status == 0
