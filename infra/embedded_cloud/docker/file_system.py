"""What a container sees of files, on a host with mounts of its own. Pure.

The programs of an image are this machine's and the image's own directory. Of the host, as of
everything else in tpuflex's directory, there is what ``docker run`` mounts, at its target alone.
"""

from __future__ import annotations

from pathlib import Path

from embedded_cloud.docker.arguments import RunRequest
from embedded_cloud.hosts.namespace import SHARED_MEMORY, Bind, Plan


def own_file_system(
    request: RunRequest, *, home: Path, host: Path, image: Path, files: Path
) -> Plan:
    """The file system of the container of ``request``.

    Args:
        request: its `docker run`.
        home: tpuflex's directory.
        host: the host's directory.
        image: the directory of its image.
        files: the directory of its own that it starts in.
    """
    hidden = (str(home),) if host.is_relative_to(home) else (str(home), str(host))
    given = (*request.mounts, *(Bind(device, device) for device in request.devices))
    own = (Bind(str(image), str(image), read_only=True), Bind(str(files), str(files)))
    return Plan({SHARED_MEMORY: request.shm_bytes}, hidden, (*own, *given), str(files))
