"""What ``docker pull`` asks a registry, and what of it the host has then.

Only on a host whose registries are strict (``TPUFLEX_REGISTRY`` names them): elsewhere every image
that can run is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from embedded_cloud.machines.docker.containers import DockerError

DOCKER_HUB = "registry-1.docker.io"
#: By which a host tells its docker where images are asked for.
REGISTRY_VARIABLE = "TPUFLEX_REGISTRY"

_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class HostImages:
    """The images that one host has pulled.

    Attributes:
        host: the host's directory.
        environ: the environment of the command.
    """

    host: Path
    environ: Mapping[str, str]

    def has(self, image: str) -> bool:
        """Whether the host has ``image``."""
        return REGISTRY_VARIABLE not in self.environ or self._record(image).exists()

    def pull(self, image: str) -> None:
        """Ask the image's registry for its manifest.

        Raises:
            DockerError: the registry refuses, in docker's words.
        """
        root = self.environ.get(REGISTRY_VARIABLE)
        if root is None:
            return
        name, _, digest = image.partition("@")
        registry, path = _split(name)
        credentials = self._credentials(registry)
        status, document = _ask(f"{root}/{registry}/v2/{path}/manifests/{digest}", credentials)
        if status != 200:
            error = (document.get("errors") or [{}])[0]
            code = str(error.get("code", status)).lower().replace("_", " ")
            message = f"{code}: {error.get('message', '')}"
            if status != 429:
                message = f'Head "https://{registry}/v2/{path}/manifests/{digest}": {message}'
            raise DockerError(f"Error response from daemon: {message}", 1)
        self._record(image).parent.mkdir(parents=True, exist_ok=True)
        self._record(image).touch()

    def _record(self, image: str) -> Path:
        return self.host / "root" / "var" / "lib" / "docker-images" / image.partition("@")[2]

    def _credentials(self, registry: str) -> str:
        """What docker's configuration has for ``registry``, as the value of a header."""
        try:
            text = Path(self.environ["DOCKER_CONFIG"], "config.json").read_text(encoding="utf-8")
            return f"Basic {json.loads(text)['auths'][registry]['auth']}"
        except (OSError, ValueError, KeyError):
            return ""


def _split(name: str) -> tuple[str, str]:
    """Registry and path of an image's name, as docker reads it."""
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return (DOCKER_HUB if first == "docker.io" else first), rest
    return DOCKER_HUB, name if slash else f"library/{name}"


def _ask(url: str, credentials: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    # Only where a registry is asked: a boot starts docker ten times or more, and to load modules is
    # most of what that takes.
    import http.client

    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=_TIMEOUT_S)
    try:
        headers = {"Authorization": credentials} if credentials else {}
        connection.request("GET", parts.path, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise DockerError(f"Error response from daemon: Get {url!r}: {error}", 1) from error
    finally:
        connection.close()
