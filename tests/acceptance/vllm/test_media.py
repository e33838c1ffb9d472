"""S11: with our arguments vLLM fetches nothing that a request names."""

from __future__ import annotations

import json
import subprocess

import pytest

from embedded_cloud.machines.image_installation import ensure_image
from embedded_cloud.machines.images import embedded_image
from tests.security.test_p1_media import arguments
from tests.security.vllm_host import HOME, image_is_installed

_FETCH = """
import json, socket, sys, threading
from vllm.multimodal.media import MediaConnector

listener = socket.create_server(("127.0.0.1", 0))
visits = []

def serve():
    while True:
        visits.append(listener.accept()[0].close())

threading.Thread(target=serve, daemon=True).start()
url = f"http://127.0.0.1:{listener.getsockname()[1]}/image.png"
counts = []
for domains in json.load(sys.stdin):
    connector = MediaConnector(allowed_media_domains=domains)
    before = len(visits)
    for address in (url, url.replace("127.0.0.1", "localhost"), "http://none.invalid/x.png"):
        try:
            connector.fetch_image(address)
        except Exception:
            continue
    counts.append(len(visits) - before)
print(json.dumps(counts))
"""


@pytest.mark.vllm
@pytest.mark.skipif(
    not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
)
def test_vllm_fetches_nothing_by_default() -> None:
    """S11: vLLM with our domains connects to nothing; with an empty list, or none, it does."""
    image = ensure_image(embedded_image(), HOME, print)
    ours = arguments()[arguments().index("--allowed-media-domains") + 1 :]
    done = subprocess.run(
        [str(image.python), "-c", _FETCH],
        env={**image.environment, "HOME": "/nonexistent", "VLLM_MEDIA_FETCH_MAX_RETRIES": "1"},
        input=json.dumps([ours, [], None]),
        capture_output=True,
        text=True,
        timeout=250,
        check=True,
    )
    default, empty, absent = json.loads(done.stdout.splitlines()[-1])
    assert default == 0
    assert empty > 0
    assert absent > 0
