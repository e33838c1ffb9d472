"""gcloud against the services: a strict client."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from embedded_cloud.server import EmbeddedCloud

pytestmark = [
    pytest.mark.gcloud,
    pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not on PATH"),
]

Gcloud: TypeAlias = Callable[..., str]


@pytest.fixture
def gcloud(cloud: EmbeddedCloud, tmp_path: Path) -> Gcloud:
    """Run gcloud on the cloud; gives its output, fails with its errors."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        **cloud.environ(),
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }

    def run(*arguments: str, stdin: str = "", fails: bool = False) -> str:
        done = subprocess.run(
            ["gcloud", *arguments],
            env=environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            cwd=tmp_path,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    return run


def test_storage(gcloud: Gcloud, tmp_path: Path) -> None:
    """Buckets, small and large files up and down, policies, and all of it deleted again."""
    place = ("--location=us-east5", "--uniform-bucket-level-access")
    gcloud("storage", "buckets", "create", "gs://bk-one", *place)
    listed = gcloud("storage", "buckets", "list", "--format=value(name,location)")
    assert listed.split() == ["bk-one", "US-EAST5"]
    (tmp_path / "small.txt").write_bytes(b"hello")
    (tmp_path / "large.bin").write_bytes(os.urandom(9_000_000))
    gcloud("storage", "cp", "small.txt", "large.bin", "gs://bk-one/d/")
    assert gcloud("storage", "cat", "gs://bk-one/d/small.txt") == "hello"
    gcloud("storage", "cp", "gs://bk-one/d/large.bin", "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == (tmp_path / "large.bin").read_bytes()
    gcloud("storage", "buckets", "update", "gs://bk-one", "--update-labels=a=b")
    member = ("--member=user:a@example.com", "--role=roles/storage.objectViewer")
    gcloud("storage", "buckets", "add-iam-policy-binding", "gs://bk-one", *member)
    gcloud("storage", "rm", "-r", "gs://bk-one")
    assert gcloud("storage", "buckets", "list") == ""


def test_secrets(gcloud: Gcloud) -> None:
    """Create, add from standard input, access, disable, delete."""
    gcloud("secrets", "create", "api-key", "--replication-policy=automatic")
    gcloud("secrets", "versions", "add", "api-key", "--data-file=-", stdin="canary")
    access = ("secrets", "versions", "access", "latest", "--secret=api-key")
    assert gcloud(*access) == "canary"
    gcloud("secrets", "versions", "disable", "1", "--secret=api-key")
    assert "DISABLED" in gcloud(*access, fails=True)
    gcloud("secrets", "delete", "api-key", "--quiet")


def test_compute(gcloud: Gcloud) -> None:
    """A private network with NAT, built and taken down in order."""
    gcloud("compute", "networks", "create", "net1", "--subnet-mode=custom")
    subnetwork = ("sub1", "--network=net1", "--region=us-east5", "--range=10.0.0.0/24")
    google_access = "--enable-private-ip-google-access"
    gcloud("compute", "networks", "subnets", "create", *subnetwork, google_access)
    gcloud("compute", "routers", "create", "r1", "--network=net1", "--region=us-east5")
    nat = ("--auto-allocate-nat-external-ips", "--nat-all-subnet-ip-ranges")
    router = ("--router=r1", "--region=us-east5")
    gcloud("compute", "routers", "nats", "create", "n1", *router, *nat)
    rule = ("--allow=tcp:22", "--source-ranges=35.235.240.0/20", "--target-tags=tpu")
    gcloud("compute", "firewall-rules", "create", "fw1", "--network=net1", *rule)
    names = "--format=value(name)"
    assert gcloud("compute", "networks", "subnets", "list", names).split() == ["sub1"]
    assert gcloud("compute", "routers", "nats", "list", *router, names).split() == ["n1"]
    refused = gcloud("compute", "networks", "delete", "net1", "--quiet", fails=True)
    assert "already being used by" in refused
    gcloud("compute", "firewall-rules", "delete", "fw1", "--quiet")
    gcloud("compute", "routers", "delete", "r1", "--region=us-east5", "--quiet")
    gcloud("compute", "networks", "subnets", "delete", "sub1", "--region=us-east5", "--quiet")
    gcloud("compute", "networks", "delete", "net1", "--quiet")


def test_dns(gcloud: Gcloud) -> None:
    """A private zone with an address and an alias, changed and taken down."""
    gcloud("compute", "networks", "create", "net1", "--subnet-mode=custom")
    private = ("--visibility=private", "--networks=net1", "--dns-name=googleapis.com.")
    gcloud("dns", "managed-zones", "create", "apis", *private, "--description=why")
    gcloud("dns", "managed-zones", "update", "apis", "--update-labels=a=b")
    described = gcloud("dns", "managed-zones", "describe", "apis", "--format=value(labels.a)")
    assert described.strip() == "b"
    zone = ("--zone=apis", "--ttl=300")
    address = ("private.googleapis.com.", "--type=A", "--rrdatas=199.36.153.8,199.36.153.9")
    gcloud("dns", "record-sets", "create", *address, *zone)
    alias = ("*.googleapis.com.", "--type=CNAME", "--rrdatas=private.googleapis.com.")
    gcloud("dns", "record-sets", "create", *alias, *zone)
    listed = gcloud("dns", "record-sets", "list", "--zone=apis", "--format=value(name,type)")
    assert "*.googleapis.com.\tCNAME" in listed.splitlines()
    refused = gcloud("dns", "managed-zones", "delete", "apis", fails=True)
    assert "contains one or more 'resource records'" in refused
    for name, kind in ((alias[0], "CNAME"), (address[0], "A")):
        gcloud("dns", "record-sets", "delete", name, f"--type={kind}", "--zone=apis")
    gcloud("dns", "managed-zones", "delete", "apis")


def test_accounts_and_services(gcloud: Gcloud, cloud: EmbeddedCloud) -> None:
    """A service account with a role, and the APIs that a stack needs."""
    gcloud("iam", "service-accounts", "create", "host-sa", "--display-name=Host")
    email = f"host-sa@{cloud.project}.iam.gserviceaccount.com"
    listed = gcloud("iam", "service-accounts", "list", "--format=value(email)")
    assert listed.strip() == email
    binding = (f"--member=serviceAccount:{email}", "--role=roles/logging.logWriter")
    shown = gcloud(
        *("projects", "add-iam-policy-binding", cloud.project),
        *(*binding, "--condition=None", "--format=json"),
    )
    assert email in shown
    gcloud("services", "enable", "tpu.googleapis.com", "secretmanager.googleapis.com")
    enabled = gcloud("services", "list", "--enabled", "--format=value(config.name)").split()
    assert {"tpu.googleapis.com", "secretmanager.googleapis.com"} <= set(enabled)


def test_mirror_of_docker_hub(gcloud: Gcloud) -> None:
    """The command of the README makes the mirror, and a second time says that it is there."""
    create = ("artifacts", "repositories", "create", "dockerhub", "--location=us-east5")
    remote = ("--mode=remote-repository", "--remote-docker-repo=docker-hub")
    gcloud(*create, "--repository-format=docker", *remote)
    shown = gcloud("artifacts", "repositories", "list", "--location=us-east5", "--format=json")
    assert '"mode": "REMOTE_REPOSITORY"' in shown
    refused = gcloud(*create, "--repository-format=docker", *remote, fails=True)
    assert "ALREADY_EXISTS" in refused


def test_log_entries(gcloud: Gcloud) -> None:
    """An entry is written, and read again by its log and text."""
    gcloud("logging", "write", "tpuflex-boot", "the host is READY", "--severity=NOTICE")
    read = ("logging", "read", "--freshness=9999d", "--format=value(textPayload)")
    assert gcloud(*read, 'logName:"tpuflex-boot" AND severity>=NOTICE').strip() == (
        "the host is READY"
    )
    assert gcloud(*read, "severity>=ERROR") == ""
