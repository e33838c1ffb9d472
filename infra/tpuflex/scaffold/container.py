"""What a container is given, whichever tool starts it: image, environment, memory, chips."""

from __future__ import annotations

import re
from typing import NamedTuple

from tpuflex.catalog.flags import vllm_interface
from tpuflex.scaffold.shell_script import gaps
from tpuflex.scaffold.translation import AsIs, Refused, Sets
from tpuflex.settings.secret_shapes import names_secret

#: What runs besides the server.
NO_COMMANDS = Refused(
    "the container starts the server and nothing else, and installs nothing: its hosts reach"
    " Google only, and its image is pinned"
)
CHIPS = AsIs("a TPU slice takes its place, with whole hosts and all of their chips: --accelerator")

_SIZE = re.compile(r"(\d+)([mg])i?b?", re.IGNORECASE)
#: vLLM's own images, in whichever registry.
_OFFICIAL = re.compile(
    r"(.*/)?vllm/vllm-(openai|tpu)(-\w+)?([:@].*)?|.*/vllm-release-repo([:@].*)?"
)
_PINNED = "vllm/vllm-tpu is taken, by digest; another: --set serving.image=REPOSITORY@sha256:…"
_UNKNOWN = Refused(
    "is filled in where it is started, and the host runs no commands of yours",
    "Write its value, unless it is a secret: none of yours reaches the container.",
)
#: Variables that other programs in the image read.
_READ_BY_OTHERS = re.compile(r"(JAX|XLA|LIBTPU|TPU|OMP|TOKENIZERS|VLLM)_.*|PYTHONUNBUFFERED")


class _Row(NamedTuple):
    names: str
    reason: str


#: Variables that a server of tpuflex does without, each with the reason.
_UNNEEDED = (
    _Row(
        "HF_TOKEN|HF_API_TOKEN|HUGGING_FACE_HUB_TOKEN|HUGGINGFACE(_HUB)?_TOKEN",
        "the server reads its weights from the stack's bucket, and needs no token",
    ),
    _Row(
        "HF_(HOME|HUB_.*|XET_.*|ENDPOINT|DATASETS_.*|ASSETS_CACHE)|HUGGINGFACE_HUB_CACHE"
        "|TRANSFORMERS_(CACHE|OFFLINE)|VLLM_USE_MODELSCOPE|MODELSCOPE_.*|XDG_CACHE_HOME",
        "the server reads its weights from the stack's bucket, and downloads nothing",
    ),
    _Row(
        "VLLM_XLA_CACHE_PATH|JAX_COMPILATION_CACHE_DIR|VLLM_CACHE_ROOT",
        "compiled programs are kept in the stack's bucket over restarts and machines"
        " (tpuflex:serving.compile_cache)",
    ),
    _Row(
        "(CUDA|NVIDIA|NCCL|NVCC|CUDNN|PYTORCH|TORCH|FLASHINFER|HIP|ROCR|ROCM|HSA|ASCEND|HCCL|GLOO"
        "|UCX|CUBLAS|TRITON|RAY)_.*|VLLM_ATTENTION_BACKEND|VLLM_FLASH.*|VLLM_USE_(TRITON|FLASHINFER"
        "|DEEP_GEMM).*|VLLM_ROCM_.*|LD_LIBRARY_PATH",
        "it is about GPUs",
    ),
    _Row("PJRT_DEVICE|TPU_CHIPS_PER_.*|TPU_PROCESS_.*|TPU_WORKER_.*", "the host sets it"),
    _Row("PATH|HOME|USER|PWD|LANG|LC_ALL|TZ|VIRTUAL_ENV|SHELL", "the image has its own"),
)


def variable(name: str, content: str | None, *, exported: bool = False) -> Sets | AsIs | Refused:
    """What becomes of a variable in a server's environment.

    Args:
        name: its name.
        content: its value; None or ``$…`` if it is only known where the server is started.
        exported: whether it may be for another program than the server.
    """
    for row in _UNNEEDED:
        if re.fullmatch(row.names, name):
            return AsIs(row.reason)
    if name == "VLLM_USE_V1":
        return AsIs("vLLM has no other engine")
    if name == "VLLM_API_KEY":
        return Refused("it is a secret, and `tpuflex up` makes one", "Remove it from that file.")
    interface = vllm_interface()
    known = name in interface.vllm_variables or name in interface.tpu_variables
    if exported and not known and not _READ_BY_OTHERS.fullmatch(name):
        return AsIs("vLLM does not read it")
    if names_secret(name):
        return Refused("seems to be a secret, which everybody reads who may read the node")
    if content is None or gaps(content) or content.startswith("$"):
        return _UNKNOWN
    return Sets(f"serving.env.{name}", content)


def shared_memory(value: object) -> Sets | Refused:
    """What becomes of a size of shared memory, such as ``10gb``."""
    match = _SIZE.fullmatch(str(value))
    if match is None:
        return Refused(f"{str(value)[:40]!r} is no size", "Write one such as 10g.")
    return Sets("serving.shm_size", f"{match[1]}{match[2].lower()}")


def image(reference: object) -> Sets | AsIs | Refused:
    """What becomes of the name of an image."""
    if not isinstance(reference, str):
        return Refused("is not the name of an image", _PINNED)
    if _OFFICIAL.fullmatch(reference) and not re.search(r"vllm-tpu.*@sha256:", reference):
        return AsIs("vLLM's image for TPUs takes its place, pinned by its digest")
    if "@sha256:" in reference:
        return Sets("serving.image", reference)
    return Refused(
        f"{reference[:80]} is not vLLM's own, nor pinned by its digest, so nobody knows what is"
        " in it",
        _PINNED,
    )


#: GKE's names of accelerators, and of types without the number of chips.
_GKE = {"tpu-v6e-slice": "v6e", "tpu-v5-lite-podslice": "v5litepod"}


def accelerator(value: object) -> Sets | AsIs:
    """What becomes of the accelerator that a task asks for: ``v6e-4``, ``tpu-v6e-4:1``, a GPU."""
    names = [*value] if isinstance(value, dict | list) else [value]
    for name in names:
        match = re.fullmatch(r"(?:tpu[-:])?((?:v\d\w*|tpu7x)-\d+)(?::1)?", str(name), re.IGNORECASE)
        if match is not None:
            return Sets("slice.accelerator_type", match[1].lower())
    return CHIPS


def gke_accelerator(kind: object, topology: object) -> Sets | AsIs:
    """The same for the two labels by which GKE chooses nodes with TPUs."""
    if kind not in _GKE or not re.fullmatch(r"\d{1,3}(x\d{1,3}){1,2}", str(topology)):
        return CHIPS
    chips = 1
    for side in str(topology).split("x"):
        chips *= int(side)
    return Sets("slice.accelerator_type", f"{_GKE[str(kind)]}-{chips}")
