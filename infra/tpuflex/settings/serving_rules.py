"""Rules about the serving container: environment, image, parallelism, media."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

from tpuflex.catalog.environment import refusals
from tpuflex.catalog.flags import Variable, vllm_interface
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.duration import format_duration
from tpuflex.errors import Finding
from tpuflex.gcloud_commands import create_mirror
from tpuflex.settings.extra_args import extra_args_findings
from tpuflex.settings.model import PLACEHOLDER_PROJECT, Draft
from tpuflex.settings.secret_shapes import holds_secret, names_secret
from tpuflex.settings.serving import (
    CODE_METHOD,
    COMPILE_CACHE_VARIABLES,
    ServingFlags,
    ServingSettings,
    in_google_registry,
    is_import_path,
    on_docker_hub,
    registry_project,
)
from tpuflex.settings.vllm_refusals import vllm_findings, vllm_warnings
from tpuflex.startup.served import release

_SERVING = "tpuflex:serving"

#: Repository of the image on the embedded cloud's hosts.
EMBEDDED_IMAGE = "tpuflex/vllm-cpu"


def serving_findings(draft: Draft) -> Iterator[Finding]:
    """What is wrong with the serving section, by itself and together with cloud and slice."""
    if draft.serving is None:
        return
    yield from _speculation(draft.serving.flags)
    yield from vllm_findings(draft)
    yield from extra_args_findings(draft.serving.extra_args)
    yield from environment_findings(draft.serving.env)
    yield from unreadable_environment(draft.serving.env, on_tpu=draft.cloud == "google")
    yield from _compile_cache(draft.serving)
    yield from _warmup(draft, draft.serving)
    yield from media_findings(draft, draft.serving)
    yield from _image(draft, draft.serving)
    yield from _parallelism(draft, draft.serving.flags)


def serving_warnings(draft: Draft) -> Iterator[Finding]:
    """What about the serving section is likely wrong, but serves."""
    yield from vllm_warnings(draft)
    if draft.serving is not None:
        yield from environment_warnings(draft.serving.env)
        yield from image_warnings(draft, draft.serving)


def _speculation(flags: ServingFlags) -> Iterator[Finding]:
    key = f"{_SERVING}.flags"
    speculative = flags.speculative_config or {}
    method, draft = speculative.get("method"), speculative.get("model")
    if method == CODE_METHOD or (method is None and is_import_path(draft)):
        yield Finding(
            f"{key}.speculative_config",
            f"names a Python class ({draft}) that vLLM would load and run",
            "Write another method, such as ngram.",
        )
    elif isinstance(draft, str) and not draft.startswith("/"):
        yield Finding(
            f"{key}.speculative_config",
            f"names the model {draft} on the Hub, from which the server can download nothing",
            "Write a method that needs no other model, such as ngram.",
        )


def _compile_cache(serving: ServingSettings) -> Iterator[Finding]:
    own = [name for name in COMPILE_CACHE_VARIABLES if name in serving.env]
    if own and serving.compile_cache in ("bucket", "host"):
        yield Finding(
            f"{_SERVING}.compile_cache",
            f"{serving.compile_cache}, but {own[0]} in env names a directory that is not kept",
            f"Remove {' and '.join(own)}, or write none.",
        )


def _warmup(draft: Draft, serving: ServingSettings) -> Iterator[Finding]:
    if draft.slice is None or serving.warmup < (ready := draft.slice.timeouts.ready):
        return
    yield Finding(
        f"{_SERVING}.warmup",
        f"{format_duration(serving.warmup)} is not shorter than tpuflex:slice.timeouts.ready"
        f" ({format_duration(ready)}), within which the host has to be READY, and its warm-up is a"
        " part of that",
        "Write less, or a longer timeouts.ready.",
    )


def _image(draft: Draft, serving: ServingSettings) -> Iterator[Finding]:
    yield from version_findings(draft, serving.image)
    cloud = draft.cloud
    repository = serving.image.partition("@")[0]
    if cloud == "embedded" and repository != EMBEDDED_IMAGE:
        yield Finding(
            f"{_SERVING}.image",
            f"the embedded cloud has no {repository}",
            f"Write the {EMBEDDED_IMAGE} image of stacks/Pulumi.dev.yaml.",
        )
    if cloud == "google" and repository == EMBEDDED_IMAGE:
        yield Finding(
            f"{_SERVING}.image",
            f"{EMBEDDED_IMAGE} exists on the embedded cloud only",
            "Write an image of vllm/vllm-tpu in Artifact Registry, with its digest.",
        )
    elif cloud == "google":
        yield from image_findings(draft, serving.image)


def _parallelism(draft: Draft, flags: ServingFlags) -> Iterator[Finding]:
    key = f"{_SERVING}.flags.tensor_parallel_size"
    chosen = draft.slice.accelerator_type if draft.slice is not None else ""
    row = draft.catalog.accelerator(chosen)
    parallel = flags.tensor_parallel_size
    if row is not None and parallel is not None and parallel > row.devices:
        yield Finding(
            key,
            f"{parallel} is more than the {row.devices} {row.device}s of {row.name}",
            f"Write {row.devices}, or remove it.",
        )
    elif draft.cloud == "embedded" and row is not None and (parallel or row.devices) > 1:
        what = "" if parallel else f" (the {row.device} count of {row.name})"
        yield Finding(
            key,
            f"{parallel or row.devices}{what}, but the embedded cloud serves with one CPU worker",
            "Write 1, or use v6e-1.",
        )
    if draft.cloud == "embedded" and (flags.kv_cache_dtype or "").startswith("fp8"):
        yield Finding(
            f"{_SERVING}.flags.kv_cache_dtype",
            f"{flags.kv_cache_dtype} needs a TPU, and the embedded cloud serves on the CPU",
            "Remove it.",
        )


_GOOGLES_HOSTS = ".googleapis.com"


def media_findings(draft: Draft, serving: ServingSettings) -> Iterator[Finding]:
    """What keeps the server of a stack on Google from fetching from its media domains."""
    if draft.cloud != "google" or not serving.media_domains:
        return
    egress = draft.network.egress if draft.network is not None else None
    beyond = [name for name in serving.media_domains if not name.endswith(_GOOGLES_HOSTS)]
    if egress == "google" and (beyond or serving.isolation != "none"):
        name = (beyond or serving.media_domains)[0]
        why = (
            "the hosts connect to Google's APIs only"
            if beyond
            else "an isolated container does not connect to Google's private range"
        )
        yield Finding(
            "tpuflex:serving.media_domains",
            f"the server cannot fetch from {name}: {why}",
            "Remove it and send media as data: URLs, or write egress: internet in tpuflex:network.",
        )


_IMAGE = "tpuflex:serving.image"
_OPEN_EGRESS = (
    "or write `egress: internet` in tpuflex:network, which lets the hosts reach everything"
)


def image_findings(draft: Draft, image: str) -> Iterator[Finding]:
    """What keeps the hosts of a stack on Google from pulling ``image``."""
    project = registry_project(image)
    if project == PLACEHOLDER_PROJECT and draft.project != PLACEHOLDER_PROJECT:
        yield Finding(
            _IMAGE,
            f"{PLACEHOLDER_PROJECT} in it is a placeholder",
            f"Write {image.replace(PLACEHOLDER_PROJECT, draft.project or 'your project')}.",
        )
    egress = draft.network.egress if draft.network is not None else None
    if egress == "google" and not in_google_registry(image):
        yield Finding(
            _IMAGE,
            f"{image.partition('@')[0]} is not in Artifact Registry, and the hosts reach nothing "
            "but Google",
            f"{_remedy(draft, image)}; {_OPEN_EGRESS}.",
        )


def version_findings(draft: Draft, image: str) -> Iterator[Finding]:
    """A known image whose vLLM has known holes: its host would stop it before READY."""
    row = draft.catalog.image(image.partition("@")[2])
    if row is None or row.vllm_version is None:
        return
    floor = row.security_floor or SECURITY_FLOOR
    if release(row.vllm_version) < release(floor):
        yield Finding(
            _IMAGE,
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
            _IMAGE,
            f"{serving.image.partition('@')[0]} is not in Artifact Registry: whether the hosts "
            "reach it depends on your network",
            "See that it has a way to the internet, such as NAT. Or else: "
            f"{_remedy(draft, serving.image)}.",
        )
    if project is not None and draft.project is not None and project != draft.project:
        yield Finding(
            _IMAGE,
            f"it is in the project {project}, where tpuflex grants nothing",
            "Give the hosts' service account, which `up` makes, roles/artifactregistry.reader "
            "there: a host that may not pull waits four minutes for it, then gives up.",
        )
    digest = serving.image.partition("@")[2]
    row, read = draft.catalog.image(digest), vllm_interface().vllm_version
    if row is None:
        yield Finding(
            _IMAGE,
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


_ENV = "tpuflex:serving.env"

#: Set by the startup script or the image; a second value would conflict with it.
_RESERVED_NAMES = frozenset(
    {
        "DISABLE_VLLM_SERVER",
        "HOME",
        "PATH",
        "STORAGE_EMULATOR_HOST",
        "VLLM_ARGS",
        "VLLM_HOST_IP",
        "VLLM_PORT",
    }
)
#: What the backend can read, by the type of the variable, and an example.
_FORMS = {
    "bool": (r"0|1|(?i:true|false)|", "0 or 1"),
    "int": (r"-?\d{1,18}", "a whole number"),
    "float": (r"-?\d{1,18}(\.\d{1,18})?|", "a number"),
    "int_list": (r"(-?\d{1,18}(, ?-?\d{1,18})*)?", "whole numbers with commas between"),
    "text": (r"(?s).*", "text"),
}
_RESERVED_PREFIXES = ("CLOUDSDK_", "TPUFLEX_")


def environment_findings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """What is wrong with the container's environment."""
    refused = dict(refusals(environment))
    for name, value in environment.items():
        key = f"{_ENV}.{name}"
        if names_secret(name) or holds_secret(value):
            # The value stays out of the message: it may well be the secret.
            yield Finding(
                key,
                "looks like a secret, and the container's environment is readable in the "
                "node's metadata",
                _secret_remedy(name),
            )
        elif name in refused:
            yield Finding(key, refused[name], "Remove it.")
        elif name in _RESERVED_NAMES or name.startswith(_RESERVED_PREFIXES):
            yield Finding(key, "is set by tpuflex itself", "Remove it.")
        elif "\0" in value or "\n" in value:
            yield Finding(key, "has a line break", "Write the value on one line.")


def unreadable_environment(environment: Mapping[str, str], *, on_tpu: bool) -> Iterator[Finding]:
    """Values that vLLM, or its TPU backend, cannot read, at which the server ends."""
    interface = vllm_interface()
    readers = {"vLLM": interface.vllm_variables}
    if on_tpu:
        readers["vLLM's TPU backend"] = interface.tpu_variables
    for name, value in environment.items():
        for reader, known in readers.items():
            if name in known and (expected := _expected(known[name], value)):
                yield Finding(
                    f"{_ENV}.{name}", f"has a value at which {reader} ends", f"Write {expected}."
                )
                break


def environment_warnings(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Variables that vLLM does not know, which it then ignores."""
    interface = vllm_interface()
    known = {*interface.vllm_variables, *interface.tpu_variables}
    for name in environment:
        if name.startswith("VLLM_") and name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.85)
            yield Finding(
                f"{_ENV}.{name}",
                f"vLLM {interface.vllm_version} does not know this variable",
                f"Did you mean {close[0]}?" if close else "Remove it.",
            )


def _expected(variable: Variable, value: str) -> str | None:
    """What to write instead of ``value``; None if the backend can read it."""
    if variable.choices:
        words = value.split(",") if variable.type == "choices" else [value]
        fold = str.lower if variable.any_case else str
        fine = {fold(word) for word in words} <= {fold(choice) for choice in variable.choices}
        return None if fine else ", ".join(filter(None, variable.choices))
    pattern, example = _FORMS[variable.type]
    return None if re.fullmatch(pattern, value) else example


def _secret_remedy(name: str) -> str:
    if name == "VLLM_API_KEY":
        return "Remove it: `tpuflex up` makes the key and keeps it in Secret Manager."
    if name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        return "Remove it: the server reads its weights from the bucket and needs no token."
    return "Remove it; no secret of yours reaches the container."
