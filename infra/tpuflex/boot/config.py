"""What the hosts of a stack boot with: its settings as the document that their script reads."""

from __future__ import annotations

import json
import shlex

from tpuflex.boot.document import (
    BootCommands,
    BootConfig,
    BootTimeouts,
    CompileCacheConfig,
    ContainerConfig,
    DrainConfig,
    EndpointIdentity,
    MonitoringConfig,
    SecretConfig,
    ServingConfig,
    WeightsConfig,
)
from tpuflex.boot.places import (
    programs_prefix,
    weights_bucket,
    weights_buckets,
    weights_prefix,
)
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.catalog.weight_formats import MANIFEST_NAME, allowed_patterns
from tpuflex.naming import ENDPOINT_NAME, PROGRAMS_KEY, Names, programs_key
from tpuflex.settings.model import StackSettings
from tpuflex.settings.serving import ServingFlags
from tpuflex.startup.warmup_requests import MOST_SEQUENCES, MOST_TOKENS

CONTAINER_NAME = "vllm"
#: Parts of files downloaded at a time; a single stream does not fill a host's network.
PARALLELISM = 16
#: What a TPU host's network gives at least in Gbit/s, for a warning: a set of 62 GB is then there
#: within 20 s. Nobody has measured it for Flex-start (docs/proved.md).
EXPECTED_GBPS = 25
#: How often a host writes its series to Cloud Monitoring.
METRICS_EVERY_S = 60
#: How long a host asks for a secret: a new permission takes minutes to take effect, and
#: the value may still have to be added.
SECRET_SECONDS = 1800

#: Environment of every serving container, unless the stack file overrides it.
DEFAULT_ENVIRONMENT: dict[str, str] = {
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    # vLLM's default of ten minutes is too short for compiling a large model for TPU.
    "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
    # vLLM's security guide: no redirects of media URLs, a limit on answers per request.
    "VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0",
    "VLLM_MAX_N_SEQUENCES": "128",
    # Weights come from the bucket alone, and the container has neither a token nor a way out.
    "HF_HUB_OFFLINE": "1",
}


#: Where no media may be fetched from: vLLM takes an empty list for permission to fetch from
#: everywhere, and this name is nobody's (https://www.rfc-editor.org/rfc/rfc6761#section-6.4).
NO_MEDIA_DOMAIN = ("none.invalid",)


def boot_config(settings: StackSettings, names: Names, manifest_sha256: str) -> BootConfig:
    """The boot configuration of a stack's hosts.

    Args:
        settings: what to deploy.
        names: physical names.
        manifest_sha256: SHA-256 of the manifest of the weights that are to be served.
    """
    row = settings.catalog.accelerator(settings.slice.accelerator_type)
    serving = settings.serving
    image = settings.catalog.image(serving.image.partition("@")[2])
    floor = image.security_floor if image is not None else None
    bucket = weights_bucket(settings, names)
    buckets = weights_buckets(settings, names)
    return BootConfig(
        endpoint=EndpointIdentity(project=names.project, stack=names.stack, name=names.name),
        container=ContainerConfig(
            name=CONTAINER_NAME,
            image=serving.image,
            shm_size=serving.shm_size,
            isolation=serving.isolation,
            egress="internet" if serving.media_domains else "none",
            env={**DEFAULT_ENVIRONMENT, **serving.env},
        ),
        serving=ServingConfig(
            model_name=settings.model.name,
            port=serving.port,
            security_floor=floor or SECURITY_FLOOR,
            chat_template=serving.flags.chat_template or "",
            warmup_s=int(serving.warmup.total_seconds()),
            max_num_batched_tokens=serving.flags.max_num_batched_tokens or MOST_TOKENS,
            max_num_seqs=serving.flags.max_num_seqs or MOST_SEQUENCES,
            args=(
                *serving_args(serving.flags, row.devices if row else 1),
                *serving.extra_args,
                *("--allowed-media-domains", *(serving.media_domains or NO_MEDIA_DOMAIN)),
            ),
        ),
        weights=WeightsConfig(
            bucket=bucket,
            buckets=buckets if len(buckets) > 1 else None,
            prefix=weights_prefix(settings.model),
            manifest=MANIFEST_NAME,
            manifest_sha256=manifest_sha256,
            formats=allowed_patterns(settings.model.weights.extra_files),
            parallelism=PARALLELISM,
            expected_gbps=EXPECTED_GBPS if settings.cloud == "google" else 0,
        ),
        compile_cache=_compile_cache_config(settings, names, bucket),
        secrets=tuple(
            SecretConfig(role=role, version=settings.secret_version(names, role))
            for role in settings.secrets.host_roles
            if role != PROGRAMS_KEY
        ),
        timeouts=BootTimeouts(
            ready_s=int(settings.slice.timeouts.ready.total_seconds()), secret_s=SECRET_SECONDS
        ),
        drain=DrainConfig(
            run_s=int(settings.slice.max_run_duration.total_seconds()),
            drain_s=int(settings.slice.drain.total_seconds()),
            margin_s=int(settings.slice.drain_margin.total_seconds()),
        ),
        monitoring=MonitoringConfig(
            every_s=METRICS_EVERY_S if settings.monitoring.export_metrics else 0
        ),
        commands=BootCommands(
            weights=f"tpuflex weights push {_options(names)}",
            secrets=f"tpuflex secrets ensure {_options(names)}",
        ),
    )


def _options(names: Names) -> str:
    """The options by which a command finds the endpoint of ``names``."""
    endpoint = "" if names.name == ENDPOINT_NAME else f" --endpoint {shlex.quote(names.name)}"
    return f"--stack {names.stack}{endpoint}"


def _compile_cache_config(settings: StackSettings, names: Names, bucket: str) -> CompileCacheConfig:
    """Where compiled programs are kept: in the library that is ``bucket`` in the stack's home, or
    in the endpoint's own bucket. In one of the user's own nobody but the user lets anybody write,
    and who writes programs runs code on the chips (docs/adr/0023)."""
    mode, project = settings.serving.kept_programs, settings.project
    prefix = programs_prefix(names)
    if settings.programs_in_library:
        # The latest, so that an exchange changes the configuration of no endpoint.
        key = f"{programs_key(project)}/versions/latest"
        return CompileCacheConfig(mode=mode, prefix=prefix, key=key)
    own = names.bucket(project, settings.region)
    apart = mode == "bucket" and own != bucket
    return CompileCacheConfig(
        mode=mode,
        bucket=own if apart else None,
        prefix=prefix,
        key=settings.secret_version(names, PROGRAMS_KEY) if settings.signs_programs else None,
    )


def serving_args(flags: ServingFlags, chips: int) -> tuple[str, ...]:
    """``flags`` as arguments of vLLM's server on ``chips`` chips, in the order of the fields.

    Names and meaning are vLLM 0.32.0's (`vllm serve --help=all`). Model, served name, host, port
    and chat template are added by the startup script, which alone knows where they are. A flag
    that is not set is not passed, so vLLM's default holds; only the tensor parallel size follows
    the chips, because vLLM's own default of 1 would leave all others idle.
    """
    values = flags.model_dump(exclude_none=True, exclude={"chat_template"})
    if flags.tensor_parallel_size is None and chips > 1:
        values = {"tensor_parallel_size": chips, **values}
    arguments: list[str] = []
    for field, value in values.items():
        name = field.replace("_", "-")
        if value is True:
            arguments.append(f"--{name}")
        elif value is False:
            arguments.append(f"--no-{name}")
        elif isinstance(value, dict):
            arguments += [f"--{name}", json.dumps(value, sort_keys=True, separators=(",", ":"))]
        else:
            arguments += [f"--{name}", str(value)]
    return tuple(arguments)
