"""Single functions of the startup script, without a boot: what they refuse, and what they say."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.startup.cloud import VERSION
from tests.startup.host import StartupHost

BUCKETS = {"us-east5": "bucket-2", "europe-west4": "bucket-1"}
SECRET = "projects/p/secrets/programs-us-east5"
DIGEST = "@sha256:" + "ab" * 32


def read(host: StartupHost) -> str:
    """The bucket that the script reads in its configuration, or what it says of a wrong one."""
    return host.functions("phase() { :; }\nread_config\nsetting weights.bucket")


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("schema", 2, "schema"),
        ("container", {"name": "x; rm -rf /"}, "container.name is not valid"),
        ("secrets", [], "no api-key"),
        (
            "secrets",
            [{"role": "api-key", "version": "projects/p/secrets/s/versions/latest"}],
            "pin",
        ),
        ("weights", None, "missing"),
        *(("serving", {"warmup_s": each}, "serving.warmup_s") for each in (601, "45", True)),
        *(
            ("serving", {name: each}, f"serving.{name} is not a positive number")
            for name in ("max_num_batched_tokens", "max_num_seqs")
            for each in (0, "256", None)
        ),
        ("compile_cache", {"bucket": "a/../b"}, "compile_cache.bucket is not valid"),
        *(
            ("compile_cache", {"key": each}, "compile_cache.key is not valid")
            for each in (f"{SECRET}/versions/1/../other", SECRET, "", None)
        ),
        (
            "compile_cache",
            {"mode": "none", "key": f"{SECRET}/versions/1"},
            "compile_cache.key is not valid",
        ),
        *(
            ("serving", {"chat_template": path}, "serving.chat_template is not valid")
            for path in (
                "../x.jinja",
                "a/../b.jinja",
                "/x.jinja",
                "{{ x }}.jinja",
                "x",
                "--x.jinja",
            )
        ),
    ],
)
def test_configuration_that_is_not_valid(
    host: StartupHost, part: str, value: Any, said: str
) -> None:
    """A configuration that this script does not understand is refused, naming what is wrong: no
    value of it gets into an address, a path or a command."""
    changed = host.config()[part] | value if isinstance(value, dict) else value or []
    host.cloud.config = host.config(**{part: changed})
    told = read(host)
    assert told.startswith("config: ")
    assert said in told


@pytest.mark.parametrize(
    ("zone", "buckets", "said"),
    [
        (None, None, "bucket-1"),
        ("us-east5-b", BUCKETS, "bucket-2"),
        ("europe-west4-a", BUCKETS, "bucket-1"),
        ("asia-east1-c", BUCKETS, "no bucket for asia-east1, where this host is; it has: europe"),
        (None, BUCKETS, "no bucket for no region"),
        ("us-east5-a", {"us-east5": "Not A Bucket"}, "no bucket for us-east5"),
        ("us-east5-a", {"us-east5": 1}, "no bucket for us-east5"),
        ("us-east5-a", [], "no bucket for us-east5, where this host is; it has: none"),
    ],
)
def test_weights_come_from_the_bucket_of_the_hosts_region(
    host: StartupHost, zone: str | None, buckets: object, said: str
) -> None:
    """The zone that the metadata server names decides: the same document serves in each region; a
    host that cannot tell where its weights are reads none from elsewhere, and says why."""
    weights = host.config()["weights"] | {"bucket": "bucket-1", "buckets": buckets}
    host.cloud.config = host.config(weights=weights)
    host.cloud.zone = zone
    assert said in read(host)


def test_slice_of_several_hosts_is_refused(host: StartupHost) -> None:
    """Serving across hosts is not supported yet: every worker says so."""
    host.cloud.attributes = {
        "worker-network-endpoints": "u:u:10.0.0.2,u:u:10.0.0.3,u:u:10.0.0.4,u:u:10.0.0.5",
        "agent-worker-number": "2",
    }
    assert read(host).startswith("multi-host: worker 2 of 4 hosts")


SECRETS = "phase() { :; }\nread_config\nfetch_secrets"


def test_missing_secret_names_the_command(host: StartupHost) -> None:
    """A missing version is waited for, and the command that adds it is named."""
    host.cloud.secrets.clear()
    told = host.functions(SECRETS)
    assert told.startswith(f"secret-404: {VERSION} is not there")
    assert "tpuflex secrets ensure --stack dev" in told
    assert 20 <= host.slept() <= 60


def test_disabled_secret_is_not_waited_for(host: StartupHost) -> None:
    """A disabled version will not come back: fail at once."""
    host.cloud.answers["secrets/api-key"] = [400]
    assert host.functions(SECRETS).startswith("secret-400: ")
    assert host.slept() == 0


@pytest.mark.parametrize("value", ["", " \n\n", "with space", "one\nwith space", "ключ"])
def test_unusable_secret_is_refused(host: StartupHost, value: str) -> None:
    """A value that would break out of a header is refused, and neither shown nor stored."""
    answer = host.directory / "answer"
    data = base64.b64encode(value.encode()).decode()
    answer.write_text(json.dumps({"payload": {"data": data}}))
    said = host.functions(f"store_secret api-key {answer}")
    assert said.startswith("secret-format: ")
    assert not value.strip() or value not in said
    assert not list(host.memory("secrets").iterdir())
    assert not answer.exists()


@pytest.mark.parametrize(
    ("topology", "bounds"), [("1x1", "1,1,1"), ("2x2", "2,2,1"), ("2x4", "2,4,1"), ("4x4", None)]
)
def test_bounds_follow_the_topology_of_one_host(
    host: StartupHost, topology: str, bounds: str | None
) -> None:
    """Where the host tells no bounds, those of its topology hold; unknown ones are not guessed."""
    host.cloud.attributes["tpu-env"] = f"ACCELERATOR_TYPE: 'v6e-1'\nTOPOLOGY: '{topology}'\n"
    told = host.functions('tpu_environment; cat "$STATE_DIR/tpu.env"').splitlines()
    environment = dict(line.partition("=")[::2] for line in told)
    assert environment.get("TPU_CHIPS_PER_HOST_BOUNDS") == bounds
    assert ("TPU_SKIP_MDS_QUERY" in environment) == (bounds is not None)


def pulled(host: StartupHost, image: str) -> str:
    """What the script says of ``image``, which it pulls."""
    commands = f"have_docker() {{ :; }}\nSETTINGS[container.image]={image}{DIGEST}\nfetch_image"
    return host.functions(commands)


@pytest.mark.parametrize("registry", ["us-east5-docker.pkg.dev", "gcr.io", "eu.gcr.io"])
def test_googles_registries_get_the_hosts_token(host: StartupHost, registry: str) -> None:
    """S13: an image of the project's own is pulled as the host's service account."""
    assert pulled(host, f"{registry}/my-project/vllm") == ""
    document = json.loads((host.directory / "pull.config").read_text())
    ((known, entry),) = document["auths"].items()
    assert known == registry
    assert base64.b64decode(entry["auth"]) == b"oauth2accesstoken:ya29.host"


@pytest.mark.parametrize(
    "image",
    [
        "vllm/vllm-tpu",
        "registry/vllm",
        "pkg.dev.example.com/my-project/vllm",
        "us-docker.pkg.dev.example.com/vllm",
        "us-docker.pkg.dev:8443/vllm",
        "example.com/gcr.io/vllm",
        "notgcr.io/vllm",
    ],
)
def test_no_other_registry_gets_it(host: StartupHost, image: str) -> None:
    """S13: a registry that only looks like Google's is asked without a token."""
    assert pulled(host, image) == ""
    assert not (host.directory / "pull.config").exists()


#: What docker says before a registry's own words.
HEAD = 'Error response from daemon: Head "https://registry/v2/a/vllm/manifests/sha256:ab": '


@pytest.mark.parametrize(
    ("image", "problem", "code", "said", "tries"),
    [
        (
            "us-east5-docker.pkg.dev/my-project/mirror/vllm",
            'denied: Permission "artifactregistry.repositories.downloadArtifacts" denied',
            "image-denied",
            "the role Artifact Registry Reader in the project my-project",
            8,
        ),
        (
            "gcr.io/other/vllm",
            "unauthorized: x",
            "image-denied",
            "Artifact Registry Reader in the project other",
            8,
        ),
        (
            "private/vllm",
            "pull access denied for private/vllm, repository does not exist or may require"
            " 'docker login': denied: requested access to the resource is denied",
            "image-denied",
            "logs in to registries of Google only",
            1,
        ),
        ("ghcr.io/a/vllm", HEAD + "denied", "image-denied", "of Google only", 1),
        ("quay.io/a/vllm", HEAD + "unauthorized: x", "image-denied", "of Google only", 8),
        (
            "vllm/vllm-tpu",
            "toomanyrequests: You have reached your unauthenticated pull rate limit.",
            "image",
            "All hosts behind one address share this limit: mirror the image in Artifact Registry",
            5,
        ),
        (
            "us-east5-docker.pkg.dev/my-project/mirror/vllm",
            "toomanyrequests: Quota exceeded for quota metric 'Requests per project per region'",
            "image",
            "docs/repositories/configure-remote-auth-dockerhub",
            5,
        ),
        (
            "vllm/vllm-tpu",
            HEAD + "received unexpected HTTP status: 503 Service Unavailable",
            "image",
            "503",
            5,
        ),
        (
            "vllm/vllm-tpu",
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such'
            " host",
            "image",
            "no such host",
            5,
        ),
    ],
)
def test_a_pull_that_is_refused_names_the_remedy(
    host: StartupHost, image: str, problem: str, code: str, said: str, tries: int
) -> None:
    """The error says what the registry wants; a role that was just granted, and a registry that
    fails, are waited for."""
    error = refused(host, image, problem)

    assert error.startswith(f"{code}: docker cannot pull {image}@sha256:")
    assert problem in error
    assert said in error
    assert len(host.docker_calls("pull")) == tries


@pytest.mark.parametrize(
    "problem",
    [
        "Error response from daemon: manifest unknown: manifest unknown",
        "Error response from daemon: manifest for quay.io/a/vllm@sha256:ab not found",
        HEAD + 'name unknown: Repository "mirror" not found',
        'failed to resolve reference "quay.io/a/vllm@sha256:ab": quay.io/a/vllm: not found',
        "no matching manifest for linux/amd64 in the manifest list entries",
    ],
)
@pytest.mark.parametrize("image", ["quay.io/a/vllm", "us-east5-docker.pkg.dev/my-project/a/vllm"])
def test_an_image_that_is_not_there_is_not_asked_for_again(
    host: StartupHost, image: str, problem: str
) -> None:
    """Chips are billed meanwhile: what no second look can change ends the boot at the first, with a
    code and a remedy of its own."""
    error = refused(host, image, problem)

    assert error.startswith(f"image-unknown: docker cannot pull {image}@sha256:")
    assert problem in error
    assert "write an image for this machine that is there at tpuflex:serving.image" in error
    assert len(host.docker_calls("pull")) == 1


def refused(host: StartupHost, image: str, problem: str) -> str:
    """What a host says whose docker says ``problem`` to every pull of ``image``."""
    host.mark("registry-down").write_text(problem)
    return pulled(host, image)
