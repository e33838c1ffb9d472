"""Registries: which manifests are there, and who may have them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import requests

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api, flex_start

DIGEST = "sha256:" + "ab" * 32
HOST = "us-east5-docker.pkg.dev"
NAME = f"{PROJECT}/dockerhub/vllm/vllm-tpu"
REPOSITORIES = f"v1/projects/{PROJECT}/locations/us-east5/repositories"
ACCOUNT = f"host-sa@{PROJECT}.iam.gserviceaccount.com"


def ask(
    cloud: EmbeddedCloud, host: str = HOST, name: str = NAME, authorization: str = f"Bearer {TOKEN}"
) -> requests.Response:
    """HEAD a manifest, as docker does."""
    url = f"{cloud.url}/registry/{host}/v2/{name}/manifests/{DIGEST}"
    headers = {"Authorization": authorization} if authorization else {}
    return requests.get(url, headers=headers, timeout=30)


@pytest.fixture
def mirrored(api: Api) -> Api:
    """A project with a mirror of Docker Hub."""
    body = {
        "format": "DOCKER",
        "mode": "REMOTE_REPOSITORY",
        "remoteRepositoryConfig": {"dockerRepository": {"publicRepository": "DOCKER_HUB"}},
    }
    answer = api.call("POST", REPOSITORIES, body=body, repositoryId="dockerhub")
    assert answer.status_code == 200, answer.text
    return api


@pytest.mark.usefixtures("mirrored")
def test_an_image_is_there_with_its_repository(cloud: EmbeddedCloud) -> None:
    """A manifest of the mirror is found by its digest, with HEAD and GET."""
    found = ask(cloud)
    assert found.status_code == 200
    assert found.headers["Docker-Content-Digest"] == DIGEST
    head = requests.head(found.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
    assert (head.status_code, head.text) == (200, "")


def test_no_repository_no_image(cloud: EmbeddedCloud) -> None:
    """Without the mirror, its images are not there."""
    refused = ask(cloud)
    assert refused.status_code == 404
    (error,) = refused.json()["errors"]
    assert error == {"code": "NAME_UNKNOWN", "message": 'Repository "dockerhub" not found'}


@pytest.mark.parametrize("absent", [DIGEST, f"{NAME}@{DIGEST}"])
def test_an_image_that_is_absent(cloud: EmbeddedCloud, mirrored: Api, absent: str) -> None:
    """A digest that upstream does not have is unknown, mirror or not."""
    mirrored.strict(registry={"absent": [absent]})
    refused = ask(cloud)
    assert refused.status_code == 404
    assert refused.json()["errors"][0]["code"] == "MANIFEST_UNKNOWN"


def test_strict_registry_wants_a_token(cloud: EmbeddedCloud, mirrored: Api) -> None:
    """Nobody in particular may download from a project's repository; with a token, as Bearer
    or as docker's Basic, the owner may."""
    assert ask(cloud, authorization="").status_code == 200
    mirrored.strict(registry={"token_required": True})
    refused = ask(cloud, authorization="")
    assert refused.status_code == 403
    assert refused.json()["errors"][0]["message"].startswith("Unauthenticated request.")
    basic = base64.b64encode(f"oauth2accesstoken:{TOKEN}".encode()).decode()
    assert ask(cloud, authorization=f"Basic {basic}").status_code == 200


@pytest.mark.usefixtures("mirrored")
@pytest.mark.parametrize("authorization", ["Bearer x", "Basic !", "Basic eDp5"])
def test_wrong_credentials_are_always_refused(cloud: EmbeddedCloud, authorization: str) -> None:
    """A token that is nobody's is worse than none."""
    assert ask(cloud, authorization=authorization).status_code == 401


def test_a_host_needs_the_reader_role(cloud: EmbeddedCloud, mirrored: Api) -> None:
    """A host's service account may download once the project grants it the role."""
    mirrored.strict(registry={"token_required": True})
    mirrored.create(body=flex_start(serviceAccount={"email": ACCOUNT}))
    cloud.advance(600)
    (spec,) = cloud.cloud.tpu.desired_hosts()
    token = cloud.cloud.access.host_token(spec.key)
    refused = ask(cloud, authorization=f"Bearer {token}")
    assert refused.status_code == 403
    assert "artifactregistry.repositories.downloadArtifacts" in refused.text
    accounts = f"v1/projects/{PROJECT}/serviceAccounts"
    mirrored.call("POST", accounts, body={"accountId": "host-sa"})
    role = {"role": "roles/artifactregistry.reader", "members": [f"serviceAccount:{ACCOUNT}"]}
    policy = {"policy": {"bindings": [role]}}
    set_ = mirrored.call("POST", f"v1/projects/{PROJECT}:setIamPolicy", body=policy)
    assert set_.status_code == 200, set_.text
    assert ask(cloud, authorization=f"Bearer {token}").status_code == 200


def test_docker_hub_limits_anonymous_pulls(
    cloud: EmbeddedCloud, api: Api, clock: ManualClock
) -> None:
    """All hosts behind one address share Docker Hub's limit, in Docker's own words."""
    hub = {"host": "registry-1.docker.io", "name": "vllm/vllm-tpu", "authorization": ""}
    api.strict(registry={"anonymous_pulls_per_hour": 2})
    assert [ask(cloud, **hub).status_code for _ in range(3)] == [200, 200, 429]
    assert (
        ask(cloud, **hub)
        .json()["errors"][0]["message"]
        .startswith("You have reached your unauthenticated pull rate limit.")
    )
    clock.advance(3601)
    assert ask(cloud, **hub).status_code == 200


def test_artifact_registry_limits_requests_by_the_minute(
    cloud: EmbeddedCloud, mirrored: Api, clock: ManualClock
) -> None:
    """A project's repositories have a quota, whoever asks; a minute later there is more."""
    mirrored.strict(registry={"repository_requests_per_minute": 1})
    assert [ask(cloud).status_code for _ in range(2)] == [200, 429]
    (error,) = ask(cloud).json()["errors"]
    assert error["code"] == "TOOMANYREQUESTS"
    assert error["message"].startswith("Quota exceeded for quota metric")
    clock.advance(61)
    assert ask(cloud).status_code == 200


@pytest.mark.parametrize(
    ("host", "name", "status"),
    [
        ("gcr.io", f"{PROJECT}/vllm", 404),
        ("eu.gcr.io", f"{PROJECT}/vllm", 404),
        ("mirror.gcr.io", "vllm/vllm-tpu", 200),
        ("quay.io", "a/b", 200),
        (HOST, PROJECT, 400),
    ],
)
def test_whose_an_image_is(cloud: EmbeddedCloud, host: str, name: str, status: int) -> None:
    """gcr.io has repositories of projects, too; other registries are open to everybody."""
    assert ask(cloud, host, name).status_code == status


def test_images_of_gcr_io(cloud: EmbeddedCloud, api: Api) -> None:
    """A repository of Artifact Registry called gcr.io stands behind the host of that name."""
    where = f"v1/projects/{PROJECT}/locations/us/repositories"
    made = api.call("POST", where, body={"format": "DOCKER"}, repositoryId="gcr.io")
    assert made.status_code == 200, made.text
    assert ask(cloud, "gcr.io", f"{PROJECT}/vllm").status_code == 200


@pytest.mark.parametrize(
    ("query", "body", "status"),
    [
        ({}, {"format": "DOCKER"}, 400),
        ({"repositoryId": "Upper"}, {"format": "DOCKER"}, 400),
        ({"repositoryId": "a"}, {}, 400),
        ({"repositoryId": "a"}, {"format": "DOCKER", "mode": "REMOTE_REPOSITORY"}, 400),
        ({"repositoryId": "a"}, {"format": "DOCKER"}, 200),
    ],
)
def test_repositories_that_google_refuses(
    api: Api, query: dict[str, str], body: dict[str, Any], status: int
) -> None:
    """An id, a format, and for a remote repository what it mirrors."""
    assert api.call("POST", REPOSITORIES, body=body, **query).status_code == status


def test_a_repository_that_is_deleted_is_gone(mirrored: Api) -> None:
    """Its operation is done when it is answered, and can be read again."""
    operation = mirrored.call("DELETE", f"{REPOSITORIES}/dockerhub").json()
    assert mirrored.call("GET", f"v1/{operation['name']}").json() == operation
    assert mirrored.call("GET", f"{REPOSITORIES}/dockerhub").status_code == 404


def test_a_host_that_is_gone_reads_nothing(cloud: EmbeddedCloud, mirrored: Api) -> None:
    """Its token has outlived it, and stands for no account that has the role."""
    mirrored.strict(registry={"token_required": True})
    token = cloud.cloud.access.host_token("gone")
    assert ask(cloud, authorization=f"Bearer {token}").status_code == 403
