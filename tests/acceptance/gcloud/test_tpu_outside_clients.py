"""Google's clients against the TPU service."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import FLEX_START, PROJECT, TOKEN, ZONE, Api

_PARENT = f"projects/{PROJECT}/locations/{ZONE}"


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_googles_tpu_library_over_rest(cloud: EmbeddedCloud) -> None:
    """google-cloud-tpu parses every answer: create, wait, get, list, delete."""
    from google.api_core.exceptions import Conflict, NotFound
    from google.cloud import tpu_v2
    from google.cloud.tpu_v2.services.tpu.transports.rest import TpuRestTransport
    from google.oauth2.credentials import Credentials

    transport = TpuRestTransport(
        host=cloud.url,
        url_scheme="http",
        credentials=Credentials(token=TOKEN),  # type: ignore[no-untyped-call]
    )
    client = tpu_v2.TpuClient(transport=transport)
    node = tpu_v2.Node(accelerator_type="v6e-4", runtime_version="v2-alpha-tpuv6e")
    operation = client.create_node(parent=_PARENT, node=node, node_id="n1")
    with pytest.raises(Conflict):
        client.create_node(parent=_PARENT, node=node, node_id="n1")
    cloud.advance(1)
    made = operation.result(timeout=30)  # type: ignore[no-untyped-call]
    assert made.state == tpu_v2.Node.State.READY
    assert operation.metadata.verb == "create"
    assert [found.name for found in client.list_nodes(parent=_PARENT)] == [made.name]
    queued = tpu_v2.QueuedResource(
        tpu={"node_spec": [{"parent": _PARENT, "node_id": "n2", "node": node}]}
    )
    client.create_queued_resource(parent=_PARENT, queued_resource=queued, queued_resource_id="q1")
    cloud.advance(10)
    got = client.get_queued_resource(name=f"{_PARENT}/queuedResources/q1")
    assert got.state.state == tpu_v2.QueuedResourceState.State.ACTIVE
    config = tpu_v2.AcceleratorConfig(type_="V6E", topology="2x4")
    client.create_node(
        parent=_PARENT,
        node=tpu_v2.Node(accelerator_config=config, runtime_version="v2-alpha-tpuv6e"),
        node_id="n3",
    )
    assert client.get_node(name=f"{_PARENT}/nodes/n3").accelerator_type == "v6e-8"
    types = client.list_accelerator_types(parent=_PARENT)
    assert "v6e-8" in [entry.type_ for entry in types]
    removed = client.delete_queued_resource(
        request={"name": f"{_PARENT}/queuedResources/q1", "force": True}
    )
    cloud.advance(1)
    removed.result(timeout=30)  # type: ignore[no-untyped-call]
    with pytest.raises(NotFound):
        client.get_queued_resource(name=f"{_PARENT}/queuedResources/q1")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_googles_discovery_client_with_flex_start(cloud: EmbeddedCloud, api: Api) -> None:
    """The only published Python client with FLEX_START, built from the document."""
    import httplib2  # type: ignore[import-untyped]
    from googleapiclient.discovery import build
    from googleapiclient.errors import HttpError

    class Authorized(httplib2.Http):  # type: ignore[misc]  # httplib2 has no types
        def request(self, *args: Any, **kwargs: Any) -> Any:
            kwargs["headers"] = {
                **(kwargs.get("headers") or {}),
                "Authorization": f"Bearer {TOKEN}",
            }
            return super().request(*args, **kwargs)

    http = Authorized(timeout=30)
    service = build(
        "tpu",
        "v2alpha1",
        http=http,
        client_options={"api_endpoint": cloud.url},
        static_discovery=True,
    )
    queued = service.projects().locations().queuedResources()
    operation = queued.create(parent=_PARENT, queuedResourceId="q1", body=FLEX_START).execute()
    assert operation["done"] is False
    cloud.advance(10)
    name = f"{_PARENT}/queuedResources/q1"
    assert queued.get(name=name).execute()["state"]["state"] == "ACTIVE"
    with pytest.raises(HttpError) as caught:
        queued.delete(name=name).execute()
    assert caught.value.status_code == 400
    assert "not supported when state is ACTIVE" in caught.value.reason
    queued.delete(name=name, force=True).execute()
    cloud.advance(1)
    assert api.state() == "GONE"
    http.close()


Gcloud = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def gcloud(cloud: EmbeddedCloud, tmp_path: Path) -> Gcloud:
    """gcloud, pointed at the embedded cloud by the variables that users get."""
    program = shutil.which("gcloud")
    if program is None:
        pytest.skip("gcloud is not on PATH")
    environment = {
        **cloud.environ(),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CLOUDSDK_CORE_PROJECT": PROJECT,
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments, "--quiet"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.mark.gcloud
def test_gcloud_walks_a_flex_start_request_from_create_to_delete(
    gcloud: Gcloud, cloud: EmbeddedCloud, api: Api
) -> None:
    """create, list, describe, delete, and the node in ``tpu-vm list``."""
    queued = ("alpha", "compute", "tpus", "queued-resources")
    made = gcloud(
        *queued, "create", "q1", "--zone", ZONE, "--node-id", "n1",
        "--accelerator-type", "v6e-4", "--runtime-version", "v2-alpha-tpuv6e",
        "--provisioning-model=flex-start", "--max-run-duration=2h", "--async",
        "--network", "n", "--subnetwork", "s", "--internal-ips", "--labels", "a=b",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert api.get("queuedResources/q1")["runDuration"] == {"maxRunDuration": "7200s"}
    cloud.advance(10)
    listed = gcloud(*queued, "list", "--zone", ZONE, "--format=value(name,state.state)")
    assert listed.stdout.split() == ["q1", "ACTIVE"], listed.stderr
    nodes = gcloud("compute", "tpus", "tpu-vm", "list", "--zone", ZONE, "--format=csv(name,state)")
    assert nodes.stdout.splitlines()[1:] == ["n1,READY"], nodes.stderr
    described = gcloud(*queued, "describe", "q1", "--zone", ZONE, "--format=value(state.state)")
    assert described.stdout.strip() == "ACTIVE"
    refused = gcloud(*queued, "delete", "q1", "--zone", ZONE, "--async")
    assert refused.returncode == 1
    assert "FAILED_PRECONDITION" in refused.stderr
    deleted = gcloud(*queued, "delete", "q1", "--zone", ZONE, "--force", "--async")
    assert deleted.returncode == 0, deleted.stderr
    cloud.advance(1)
    gone = gcloud(*queued, "describe", "q1", "--zone", ZONE)
    assert "NOT_FOUND" in gone.stderr


@pytest.mark.gcloud
def test_gcloud_asks_for_several_nodes(gcloud: Gcloud, cloud: EmbeddedCloud, api: Api) -> None:
    """`--node-count` with Flex-start: two nodes by their prefix, and one request to delete."""
    queued = ("alpha", "compute", "tpus", "queued-resources")
    made = gcloud(
        *queued, "create", "q1", "--zone", ZONE, "--node-count", "2", "--node-prefix", "pod",
        "--workload-type", "AVAILABILITY_OPTIMIZED",
        "--accelerator-type", "v6e-4", "--runtime-version", "v2-alpha-tpuv6e",
        "--provisioning-model=flex-start", "--max-run-duration=2h", "--async",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    params = api.get("queuedResources/q1")["tpu"]["nodeSpec"][0]["multiNodeParams"]
    assert params == {
        "nodeCount": 2,
        "nodeIdPrefix": "pod",
        "workloadType": "AVAILABILITY_OPTIMIZED",
    }
    cloud.advance(10)
    nodes = gcloud("compute", "tpus", "tpu-vm", "list", "--zone", ZONE, "--format=csv(name,state)")
    assert nodes.stdout.splitlines()[1:] == ["pod-0,READY", "pod-1,READY"], nodes.stderr


@pytest.mark.gcloud
@pytest.mark.parametrize(
    ("command", "first"),
    [
        (("locations", "list", "--format=value(locationId)"), "asia-east1-c"),
        (("tpu-vm", "versions", "list", f"--zone={ZONE}", "--format=value(version)"), "tpu-ubuntu"),
        (
            ("tpu-vm", "accelerator-types", "list", f"--zone={ZONE}", "--format=value(type)"),
            "v5p-8",
        ),
        (("list", f"--zone={ZONE}", "--format=value(name,state)"), "n1\tREADY"),
        (("describe", "n1", f"--zone={ZONE}", "--format=value(acceleratorType)"), "v6e-4"),
    ],
)
def test_gcloud_reads_with_its_ga_commands(
    gcloud: Gcloud, cloud: EmbeddedCloud, api: Api, command: tuple[str, ...], first: str
) -> None:
    """Commands on v1 and v2 of the API, answered at once."""
    api.create()
    cloud.advance(10)
    done = gcloud("compute", "tpus", *command)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(first)
    assert [entry["status"] for entry in cloud.cloud.history.entries()[1:]] == [200]


@pytest.mark.gcloud
def test_gcloud_does_not_retry_what_the_old_version_cannot_do(
    gcloud: Gcloud, cloud: EmbeddedCloud
) -> None:
    """One call, and an error that names the alternative."""
    done = gcloud("compute", "tpus", "stop", "n1", f"--zone={ZONE}")
    assert done.returncode == 1
    assert "use v2" in done.stderr
    assert [entry["status"] for entry in cloud.cloud.history.entries()] == [404]


@pytest.mark.gcloud
def test_gcloud_without_the_token_is_refused(gcloud: Gcloud, cloud: EmbeddedCloud) -> None:
    """Another token than the state directory's makes no node."""
    (cloud.state_dir / "token").write_text("ya29.somebody-else")
    done = gcloud("compute", "tpus", "tpu-vm", "list", f"--zone={ZONE}")
    assert done.returncode == 1
    assert "invalid authentication credentials" in done.stderr
