"""Rules about where the serving image is, which follow from where the hosts may connect to."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.errors import Finding
from tpuflex.settings.image import in_google_registry, on_docker_hub, registry_project
from tpuflex.settings.model import PLACEHOLDER_PROJECT, Draft

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


def _remedy(draft: Draft, image: str) -> str:
    repository, _, digest = image.partition("@")
    project = draft.project or "PROJECT"
    region = draft.slice.region if draft.slice is not None else "REGION"
    place = f"{region}-docker.pkg.dev/{project}"
    name = on_docker_hub(repository)
    mirror, upstream = "dockerhub", "docker-hub"
    if name is None:
        host, _, name = repository.partition("/")
        mirror, upstream = "mirror", f"https://{host}"
    return (
        f"Make a repository that mirrors it, `gcloud artifacts repositories create {mirror} "
        f"--repository-format=docker --mode=remote-repository --remote-docker-repo={upstream} "
        f"--location={region} --project={project}`, and write {place}/{mirror}/{name}@{digest}"
    )
