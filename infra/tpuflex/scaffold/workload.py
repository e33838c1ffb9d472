"""Tasks of other tools that hold a server's command: Kubernetes, Compose, dstack and SkyPilot."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from tpuflex.errors import Finding, SettingsError
from tpuflex.scaffold.container import (
    CHIPS,
    NO_COMMANDS,
    accelerator,
    gke_accelerator,
    image,
    shared_memory,
    variable,
)
from tpuflex.scaffold.serve_command import (
    FLAGS_ALONE,
    NO_FILE,
    add_container_command,
    add_script,
    flag_words,
)
from tpuflex.scaffold.shell_script import expanded, gap, read_script
from tpuflex.scaffold.translation import (
    AsIs,
    Refused,
    Rule,
    Sets,
    Translation,
    as_is,
    only,
    refused,
    translated,
)
from tpuflex.settings.secret_shapes import masked

_Server = TypeVar("_Server")

ONE = "a stack is one server"
MORE = "Make a stack for each, with a load balancer in front."
SCALING = ("the number of servers follows no load: a stack is one server", MORE)
_OURS = AsIs("tpuflex starts the container itself, with what it needs and no more")
_WHERE = AsIs("it says how that tool runs it: --stack, --zone, --accelerator and --run say it here")
_WEIGHTS = as_is("the weights come from the stack's bucket, and no directory is mounted")
_WATCHED = as_is("the host asks its server for its health itself")
_ENDPOINT = as_is("the endpoint has an address and a port of its own")
_OTHER = Refused("is another container, and a stack is one server")
_REPLICAS = only(1, because=ONE, otherwise=ONE, remedy=MORE)
_FILES = refused("nothing but the weights is brought to the host", "Name files among the weights.")


def _chips(_value: object) -> AsIs:
    return CHIPS


def is_kubernetes(documents: Sequence[object]) -> bool:
    """Whether ``documents`` are manifests of Kubernetes."""
    return any(
        isinstance(each, dict) and {"apiVersion", "kind"} <= each.keys() for each in documents
    )


def is_compose(value: object) -> bool:
    """Whether ``value`` is a file of Compose."""
    services = value.get("services") if isinstance(value, dict) else None
    return isinstance(services, dict) and all(isinstance(each, dict) for each in services.values())


def is_dstack(value: object) -> bool:
    """Whether ``value`` is a service or a task of dstack."""
    return isinstance(value, dict) and value.get("type") in ("service", "task", "dev-environment")


def is_skypilot(value: object) -> bool:
    """Whether ``value`` is a task of SkyPilot."""
    return isinstance(value, dict) and isinstance(value.get("run"), str)


# dstack and SkyPilot

_DSTACK: Mapping[str, Rule] = {
    "image": image,
    "port": _ENDPOINT,
    "ports": _ENDPOINT,
    "auth": only(True, because="the endpoint wants a key", otherwise="the endpoint wants a key"),
    "model": as_is("the endpoint serves the API of OpenAI"),
    "resources.gpu": accelerator,
    "resources.tpu": accelerator,
    "replicas": _REPLICAS,
    "nodes": _REPLICAS,
    "scaling": refused(*SCALING),
    "volumes": _WEIGHTS,
    "probes": _WATCHED,
    "files": _FILES,
    "repos": _FILES,
}
_SKYPILOT: Mapping[str, Rule] = {
    "resources.accelerators": accelerator,
    "num_nodes": _REPLICAS,
    "service": lambda value: _sky_service(value),
    "workdir": _FILES,
    "file_mounts": _FILES,
    "volumes": _WEIGHTS,
}


def _sky_service(value: object) -> AsIs | Refused:
    """One replica is what a stack is; probes are the host's own matter."""
    most = [_member(value, "replicas"), _member(value, "replica_policy", "max_replicas")]
    return AsIs(ONE) if all(count in (None, 1) for count in most) else Refused(ONE, MORE)


def add_dstack(task: Mapping[str, object], given: Mapping[str, str]) -> Translation:
    """What a task of dstack says."""
    found = translated(_members(task, ("env", "commands")), _DSTACK, otherwise=_WHERE)
    lines = task.get("commands")
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise _no_server("commands", "is not a list of commands")
    environment = dict(_pairs(task.get("env")))
    _add_task(found, "\n".join(lines), environment, given, "commands: ")
    return found


def add_skypilot(task: Mapping[str, object], given: Mapping[str, str]) -> Translation:
    """What a task of SkyPilot says."""
    rest = _members(task, ("run", "setup", "envs", "secrets"))
    found = translated(rest, _SKYPILOT, otherwise=_WHERE)
    environment = {
        name: value for section in ("envs", "secrets") for name, value in _pairs(task.get(section))
    }
    setup = task.get("setup")
    text = f"{setup if isinstance(setup, str) else ''}\n{task['run']}"
    _add_task(found, text, environment, given, "run: ")
    return found


def _members(task: Mapping[str, object], apart: Sequence[str]) -> dict[str, object]:
    """Members of a task but for those that stand ``apart``; those of its resources one by one."""
    resources = task.get("resources")
    rest = {key: each for key, each in task.items() if key not in apart}
    if isinstance(resources, dict):
        del rest["resources"]
        rest |= {f"resources.{key}": each for key, each in resources.items()}
    return rest


def _add_task(
    found: Translation,
    text: str,
    environment: Mapping[str, str | None],
    given: Mapping[str, str],
    prefix: str,
) -> None:
    """Take in a script with the environment that its tool sets."""
    known = {name: value for name, value in environment.items() if value is not None}
    used = read_script(text, {}).used
    for name, value in environment.items():
        outcome = variable(name, value, exported=True)
        if isinstance(outcome, Sets) or name not in used:
            found.add(f"env {name}", outcome)
    add_script(found, text, {**given, **known}, prefix, 0)


def _pairs(section: object) -> Iterator[tuple[str, str | None]]:
    """Names and values of an environment, as a list of `A=b` or as a mapping; None where the tool
    takes the value from elsewhere."""
    if isinstance(section, Mapping):
        for name, value in section.items():
            yield str(name), None if value is None else _text(value)
    elif isinstance(section, list):
        for each in section:
            if isinstance(each, str):
                name, equals, value = each.partition("=")
                yield name, value if equals else None
            elif isinstance(each, Mapping) and "name" in each:
                content = each.get("value")
                yield str(each["name"]), None if content is None else _text(content)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# Compose

_COMPOSE: Mapping[str, Rule] = {
    "image": image,
    "shm_size": shared_memory,
    "ports": _ENDPOINT,
    "expose": _ENDPOINT,
    "volumes": _WEIGHTS,
    "healthcheck": _WATCHED,
    "env_file": lambda _value: NO_FILE,
    "build": refused("an image is not built, but named by its digest", "Build it, and name it."),
    "deploy": lambda value: _compose_deploy(value),
    **dict.fromkeys(("runtime", "gpus", "devices", "device_requests"), _chips),
}


def _compose_deploy(value: object) -> AsIs | Refused:
    replicas = value.get("replicas", 1) if isinstance(value, dict) else 1
    return CHIPS if replicas == 1 else Refused(ONE, MORE)


def add_compose(document: Mapping[str, object], given: Mapping[str, str]) -> Translation:
    """What the one service of vLLM in a file of Compose says."""
    services = document["services"]
    services = services if isinstance(services, dict) else {}
    servers = {name: each for name, each in services.items() if _is_server(each)}
    server, service = _one(servers, [*services], "services", "service")
    apart = ("command", "entrypoint", "environment")
    rest = {key: each for key, each in service.items() if key not in apart}
    found = translated(rest, _COMPOSE, otherwise=_OURS)
    for other in services:
        if other != server:
            found.add(f"services.{other}", _OTHER)
    values = {
        name: given.get(name) if value is None else expanded(value, given)
        for name, value in _pairs(service.get("environment"))
    }
    environment = _environment(found, service, values, "environment ")
    words = [
        word
        for key in ("entrypoint", "command")
        for word in _compose_words(service.get(key), given)
    ]
    add_container_command(found, words, "command: ", environment)
    return found


def _compose_words(value: object, given: Mapping[str, str]) -> list[str]:
    """Words of a command, which may be one text or a list; `$X` is the shell's of Compose."""
    if isinstance(value, str):
        script = read_script(value.replace("\n", " "), given)
        return [*script.commands[0].words] if script.commands else []
    return [expanded(str(each), given) for each in value] if isinstance(value, list) else []


# Values of vLLM's production stack

_ENGINE: Mapping[str, Rule] = {
    "repository": image,
    "tag": as_is("an image is named by its digest"),
    "replicaCount": _REPLICAS,
    "requestGPU": _chips,
    "requestGPUType": _chips,
    "requestCPU": _chips,
    "requestMemory": _chips,
    "shmSize": shared_memory,
    "hf_token": as_is("the server reads its weights from the stack's bucket, and needs no token"),
    "pvcStorage": _WEIGHTS,
}


def is_engine_values(value: object) -> bool:
    """Whether ``value`` are values of the chart of vLLM's production stack."""
    return isinstance(_member(value, "servingEngineSpec", "modelSpec"), list)


def add_engine_values(values: Mapping[str, object], _given: Mapping[str, str]) -> Translation:
    """What the one model in such values says."""
    models = _listed(_member(values, "servingEngineSpec", "modelSpec"))
    spec = models[0] if len(models) == 1 else None
    if not isinstance(spec, dict):
        raise _no_server("modelSpec", f"names {len(models)} models, and a stack is one server")
    apart = ("modelURL", "vllmConfig", "env")
    rest = {key: each for key, each in spec.items() if key not in apart}
    found = translated(rest, _ENGINE, otherwise=_WHERE)
    _environment(found, {}, dict(_pairs(spec.get("env"))), "env ")
    config = spec.get("vllmConfig")
    config = dict(config) if isinstance(config, dict) else {}
    further = [str(word) for word in _listed(config.pop("extraArgs", None))]
    if "v1" in config:
        found.add("vllmConfig.v1", variable("VLLM_USE_V1", str(config.pop("v1"))))
    flags = {
        re.sub(r"[A-Z]", lambda each: f"-{each[0].lower()}", key): config[key] for key in config
    }
    words = flag_words({"model": spec.get("modelURL", ""), **flags})
    add_container_command(found, [*words, *further], "vllmConfig: ")
    return found


# Kubernetes

_CONTAINER: Mapping[str, Rule] = {
    "image": image,
    "imagePullPolicy": as_is("a host pulls its image once, when it boots"),
    "resources": _chips,
    "ports": _ENDPOINT,
    "volumeMounts": _WEIGHTS,
    "volumeDevices": _WEIGHTS,
    **dict.fromkeys(("livenessProbe", "readinessProbe", "startupProbe", "lifecycle"), _WATCHED),
    "envFrom": refused("names what is not in the file", "Write its variables as env."),
}
#: Members of a pod that make a difference; the others say how Kubernetes runs it.
_POD: Mapping[str, Rule] = {
    "volumes": _WEIGHTS,
    "initContainers": lambda _value: NO_COMMANDS,
}
_KINDS: Mapping[str, AsIs | Refused] = {
    "Service": AsIs("the endpoint has an address and a port of its own"),
    "Ingress": AsIs("the endpoint has an address and a port of its own"),
    "PersistentVolumeClaim": AsIs("the weights come from the stack's bucket"),
    "Secret": AsIs("no secret of yours reaches the container"),
    "HorizontalPodAutoscaler": Refused(*SCALING),
    "ScaledObject": Refused(*SCALING),
}


def add_kubernetes(documents: Sequence[object], given: Mapping[str, str]) -> Translation:
    """What the one container of vLLM in manifests says."""
    manifests = list(_manifests(documents))
    pods = [(manifest, pod) for manifest in manifests for pod in _pods(manifest)]
    servers = {
        f"{manifest.get('kind')} {_name_of(manifest)}, container {each.get('name', number)}": (
            manifest,
            pod,
            each,
        )
        for manifest, pod in pods
        for number, each in enumerate(_containers(pod))
        if _is_server(each)
    }
    kinds = dict.fromkeys(str(each.get("kind")) for each in manifests)
    _, (manifest, pod, container) = _one(servers, [*kinds], "containers", "container")
    apart = ("command", "args", "env")
    rest = {key: each for key, each in container.items() if key not in apart}
    found = translated(rest, _CONTAINER, otherwise=_OURS)
    for other in manifests:
        if other is not manifest:
            key = f"{other.get('kind')} {_name_of(other)}"
            found.add(key, _KINDS.get(str(other.get("kind")), AsIs("is not the server")))
    replicas = _member(manifest, "spec", "replicas")
    if replicas not in (None, 1):
        found.add("replicas", Refused(ONE, MORE))
    selector = pod.get("nodeSelector")
    if isinstance(selector, dict):
        kind, topology = (
            selector.get(f"cloud.google.com/gke-tpu-{each}") for each in ("accelerator", "topology")
        )
        found.add("nodeSelector", gke_accelerator(kind, topology))
    for key in _POD.keys() & pod.keys():
        found.add(key, _POD[key](pod[key]))
    for other in (each for _, one in pods for each in _containers(one)):
        if other is not container:
            name = f"container {other.get('name')}"
            found.add(name, _OTHER)
    _add_pod_container(found, container, given)
    return found


def _add_pod_container(
    found: Translation, container: Mapping[str, object], given: Mapping[str, str]
) -> None:
    environment = _environment(found, container, dict(_pairs(container.get("env"))), "env ")
    words = [
        _kubernetes_word(str(word), {**given, **environment})
        for key in ("command", "args")
        for word in _listed(container.get(key))
    ]
    add_container_command(found, words, "args: ", environment)


def _kubernetes_word(word: str, given: Mapping[str, str]) -> str:
    """``word`` with `$(NAME)` replaced."""
    return re.sub(
        r"\$\(([A-Za-z_]\w*)\)", lambda match: given.get(match[1], gap(f"${match[1]}")), word
    )


def _manifests(documents: Sequence[object]) -> Iterator[Mapping[str, object]]:
    for document in documents:
        if isinstance(document, dict):
            items = document.get("items")
            if document.get("kind") == "List" and isinstance(items, list):
                yield from _manifests(items)
            else:
                yield document


def _pods(value: object) -> Iterator[dict[str, object]]:
    """Every mapping below ``value`` that has containers, wherever its kind keeps them."""
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value
        for each in value.values():
            yield from _pods(each)
    elif isinstance(value, list):
        for each in value:
            yield from _pods(each)


def _containers(pod: Mapping[str, object]) -> list[dict[str, object]]:
    return [each for each in _listed(pod.get("containers")) if isinstance(each, dict)]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _member(value: object, *path: str) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _name_of(manifest: Mapping[str, object]) -> str:
    return str(_member(manifest, "metadata", "name") or "")


# All of them

_SERVER = re.compile(r"vllm\s+serve|vllm\.entrypoints\.openai|--model\b|--tensor-parallel-size\b")


def _is_server(container: object) -> bool:
    """Whether a container's image or command is vLLM's."""
    if not isinstance(container, Mapping):
        return False
    words = _written(container)
    # The image of vLLM starts a server by itself.
    alone = words.startswith("serve ") or FLAGS_ALONE.match(words)
    return (bool(alone) and "vllm" in str(container.get("image", ""))) or bool(
        _SERVER.search(words)
    )


def _written(container: Mapping[str, object]) -> str:
    """A container's command as it is written."""
    keys = ("entrypoint", "command", "args")
    return " ".join(str(word) for key in keys for word in _listed(container.get(key)))


def _environment(
    found: Translation,
    container: Mapping[str, object],
    values: Mapping[str, str | None],
    prefix: str,
) -> dict[str, str]:
    """Take in a container's environment; returns it for the container's command."""
    for name, value in values.items():
        in_command = re.search(rf"\$[({{]?{re.escape(name)}\b", _written(container)) is not None
        outcome = variable(name, value, exported=in_command)
        # A variable that stands in the command has said what it says.
        if isinstance(outcome, Sets) or not in_command:
            found.add(f"{prefix}{name}", outcome)
    return {name: gap(f"${name}") if value is None else value for name, value in values.items()}


def _one(
    servers: Mapping[str, _Server], others: Sequence[str], key: str, kind: str
) -> tuple[str, _Server]:
    """The only one of ``servers``.

    Raises:
        SettingsError: there is none, or more than one.
    """
    if not servers:
        some = ", ".join(others[:8]) or "nothing"
        raise _no_server(key, f"have no {kind} that starts vLLM: there is {some}")
    if len(servers) > 1:
        names = ", ".join(servers)
        raise _no_server(key, f"start {len(servers)} servers ({names}), and a stack is one")
    return next(iter(servers.items()))


def _no_server(key: str, problem: str) -> SettingsError:
    remedy = "Write the one server into a file of its own."
    return SettingsError("The file of --from", (Finding(masked(key), masked(problem), remedy),))
