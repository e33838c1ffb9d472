"""Rules about the serving image: where it is, and which vLLM is in it."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.catalog.flags import vllm_interface
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.errors import Finding
from tpuflex.gcloud_commands import create_mirror
from tpuflex.settings.image import in_google_registry, on_docker_hub, registry_project
from tpuflex.settings.model import PLACEHOLDER_PROJECT, Draft
from tpuflex.settings.serving import ServingSettings
from tpuflex.startup.served import release

_KEY = "tpuflex:serving.image"
_OPEN = "or write `egress: internet` in tpuflex:network, which lets the hosts reach everything"


def image_findings(draft: Draft, image: str) -> Iterator[Finding]:
    """What keeps the hosts of a stack on Google from pulling ``image``."""
    project = registry_project(image)
    if project == PLACEHOLDER_PROJECT and draft.project != PLACEHOLDER_PROJECT:
        yield Finding(
            _KEY,
            f"{PLACEHOLDER_PROJECT} in it is a placeholder",
            f"Write {image.replace(PLACEHOLDER_PROJECT, draft.project or 'your project')}.",
        )
    egress = draft.network.egress if draft.network is not None else None
    if egress == "google" and not in_google_registry(image):
        yield Finding(
            _KEY,
            f"{image.partition('@')[0]} is not in Artifact Registry, and the hosts reach nothing "
            "but Google",
            f"{_remedy(draft, image)}; {_OPEN}.",
        )


def version_findings(draft: Draft, image: str) -> Iterator[Finding]:
    """A known image whose vLLM has known holes: its host would stop it before READY."""
    row = draft.catalog.image(image.partition("@")[2])
    if row is None or row.vllm_version is None:
        return
    floor = row.security_floor or SECURITY_FLOOR
    if release(row.vllm_version) < release(floor):
        yield Finding(
            _KEY,
            f"it serves with vLLM {row.vllm_version}, which is older than {floor} and has known "
            "security holes",
            "Write a newer image; `tpuflex catalog images` lists those that are known.",
        )


def image_warnings(draft: Draft, serving: ServingSettings) -> Iterator[Finding]:
    """What nobody knows of the image before its host has pulled it and asked the server."""
    project = registry_project(serving.image)
    egress = draft.network.egress if draft.network is not None else None
    outside = not in_google_registry(serving.image)
    if draft.cloud == "google" and egress == "existing" and outside:
        yield Finding(
            _KEY,
            f"{serving.image.partition('@')[0]} is not in Artifact Registry: whether the hosts "
            "reach it depends on your network",
            "See that it has a way to the internet, such as NAT. Or else: "
            f"{_remedy(draft, serving.image)}.",
        )
    if project is not None and draft.project is not None and project != draft.project:
        yield Finding(
            _KEY,
            f"it is in the project {project}, where tpuflex grants nothing",
            "Give the hosts' service account, which `up` makes, roles/artifactregistry.reader "
            "there: a host that may not pull waits four minutes for it, then gives up.",
        )
    digest = serving.image.partition("@")[2]
    row, read = draft.catalog.image(digest), vllm_interface().vllm_version
    if row is None:
        yield Finding(
            _KEY,
            f"{digest[:19]}… is not in the catalog: which vLLM is in it is known once it runs",
            f"The host stops a server that is older than {SECURITY_FLOOR}. Write a row in "
            "catalog.yaml if you know more.",
        )
    elif serving.extra_args and row.vllm_version and not row.vllm_version.startswith(read):
        yield Finding(
            "tpuflex:serving.extra_args",
            f"the flags are known of vLLM {read}, and the image serves with {row.vllm_version}",
            "Look them up in `vllm serve --help=all` of the image.",
        )


def _remedy(draft: Draft, image: str) -> str:
    repository, _, digest = image.partition("@")
    project = draft.project or "PROJECT"
    region = draft.slice.regions[0] if draft.slice is not None else "REGION"
    place = f"{region}-docker.pkg.dev/{project}"
    name = on_docker_hub(repository)
    mirror, upstream = "dockerhub", "docker-hub"
    if name is None:
        host, _, name = repository.partition("/")
        mirror, upstream = "mirror", f"https://{host}"
    command = create_mirror(mirror, upstream=upstream, location=region, project=project)
    return (
        f"Make a repository that mirrors it, `{command}`, "
        f"and write {place}/{mirror}/{name}@{digest}"
    )
