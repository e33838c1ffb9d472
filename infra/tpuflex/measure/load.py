"""The load of a benchmark: ``vllm bench serve``, kept running for all points of a run.

It runs beside the server (:func:`on_host`), where no network is measured with it, or here
(:func:`here`). :mod:`tpuflex.measure.load_program` is what runs there.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import TypeAdapter, ValidationError

from tpuflex.advice import Advice
from tpuflex.boot.config import CONTAINER_NAME
from tpuflex.both_ends import both_ends
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.files.trusted import child_environment
from tpuflex.measure import load_program
from tpuflex.measure.run import Load, Seconds
from tpuflex.measure.server import base_url
from tpuflex.measure.vllm_result import VllmResult
from tpuflex.operate.endpoint_connection import api_key
from tpuflex.operate.host_access import HostCommand, host_command
from tpuflex.operate.process_group import MOST_SAID, end_group, last_words
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection

#: What is the same at every point. Completions, since a chat template adds tokens that nobody
#: asked for; greedy, since what sampling costs depends on the model's own defaults.
COMMAND = (
    *("vllm", "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions"),
    *("--dataset-name", "random", "--ignore-eos", "--temperature", "0"),
    *("--ready-check-timeout-sec", "0", "--percentile-metrics", "ttft,tpot,itl,e2el"),
    *("--save-detailed", "--disable-tqdm"),
)
#: The words of :data:`COMMAND` that are a program, not its options.
_PROGRAM_WORDS = 3
#: The generator's container: a name that only one can have.
CONTAINER = "tpuflex-bench"
_NAME_IN_USE = f'The container name "/{CONTAINER}" is already in use'
#: Reads the program from standard input, which it leaves where the program goes on to read.
_BOOTSTRAP = "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))"
#: What the container is started with. Nothing of it may look for chips, which the server has, or
#: for anything on the internet.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "true",
}
#: Seconds for the generator to end with its standard input, before it is killed.
_END_WITHIN_S = 5.0
#: Seconds for the host to say how its server runs: gcloud registers a key, and tries again.
_SAID_WITHIN_S = 90.0
#: Bytes of an answer that are read: seven million tokens, of which each has its time.
_MOST_BYTES = 64 * 1024 * 1024
#: Letters of what vLLM and gcloud print that are shown.
_SHOWN = 600
_SECONDS = TypeAdapter[float](Seconds)
_VERSION = re.compile(r"[!-~]{1,100}")


@dataclass(frozen=True, slots=True)
class Drive:
    """A load that has been put on a server.

    Attributes:
        result: what the generator has measured.
        before, after: the server's ``/metrics`` right before and right after; empty where it has
            none.
        lag: longest time in seconds that the generator stood still while requests were open.
        stalled: seconds that it stood still, all times together, without computing.
        busy: processor seconds that the generator took per second meanwhile. It has one thread for
            all requests: near 1, it measures itself.
    """

    result: VllmResult
    before: str
    after: str
    lag: float
    busy: float
    stalled: float = 0.0


class Generator(Protocol):
    """A load generator that is ready."""

    @property
    def version(self) -> str:
        """The version of vLLM that it is of."""

    @property
    def command(self) -> tuple[str, ...]:
        """The words that are the same at every point, with the server's; no key is among them."""

    def drive(self, load: Load) -> Drive:
        """Put ``load`` on the server, to its end. A request that fails is part of the result.

        Raises:
            TpuflexError: the generator has failed, or is gone.
        """


def options(load: Load) -> tuple[str, ...]:
    """The words of ``vllm bench serve`` that make ``load``.

    The part of a prompt that is shared stands before the random one. The salt keeps the server from
    finding a prompt among those of other points: the random ones are runs of the vocabulary, so one
    in some thousand begins as another one does.
    """
    return (
        *("--random-input-len", str(load.context - load.shared)),
        *("--random-prefix-len", str(load.shared)),
        *("--random-output-len", str(load.output)),
        *("--num-prompts", str(load.requests)),
        *("--max-concurrency", str(load.concurrency)),
        *("--seed", str(load.seed)),
        *("--extra-body", json.dumps({"cache_salt": str(load.seed)})),
    )


@contextmanager
def on_host(cloud: Connection, status: SliceStatus, report: Report = silent) -> Iterator[Generator]:
    """A generator on the host of ``status``, in a container of its own without chips, which is gone
    after the block.

    Args:
        cloud: the stack's cloud.
        status: its slice, which has an address.
        report: receives what is run on the host.

    Raises:
        TpuflexError: it cannot be started: there is no gcloud, no server, or another generator
            runs there.
    """
    inspect = host_command(cloud, status, f"sudo docker inspect {CONTAINER_NAME}")
    server = HostServer.of(_said(inspect))
    run = host_command(cloud, status, shlex.join(server.container_words()))
    report("starting vllm bench serve on the host, beside the server")

    def failure(said: str) -> TpuflexError:
        if _NAME_IN_USE not in said:
            return run.failure(said)
        return ConflictError(
            f"Another benchmark runs on the host: its docker has a container {CONTAINER}.",
            hint="Wait until it has ended: it may be a colleague's. One whose command is gone ends"
            f" by itself within {load_program.IDLE_S / 60:.0f} minutes. If it is yours, this ends"
            f" it at once, on the host: sudo docker rm --force {CONTAINER}",
        )

    if server.on_host_network and server.url.startswith("https:"):
        raise ConflictError(
            "The server has the host's network (serving.isolation), where another program could"
            " take its place and be sent the key: its certificate would have to be checked.",
            hint=Advice("Measure it from here: {client} -- tpuflex bench run --here URL"),
        )
    # In the network of the server's container nobody but the server answers at its address.
    target = replace(server.target, insecure=server.url.startswith("https:"))
    with _running(run.words, run.environ, failure, target, api_key(cloud)) as generator:
        report(f"vllm bench serve {generator.version} is ready")
        yield generator


@contextmanager
def here(
    url: str,
    model: str,
    *,
    key: str = "",
    tokenizer: str = "",
    python: str = "",
    ca: Path | None = None,
    report: Report = silent,
) -> Iterator[Generator]:
    """A generator on this machine, as long as the block runs.

    Args:
        url: base URL of an OpenAI server, with or without ``/v1`` at its end.
        model: name of the served model.
        key: API key; empty where the server wants none.
        tokenizer: directory or name in the Hub of the model's tokenizer; ``model`` by default.
        python: a Python that has vLLM; by default the one that runs this, or the first on PATH.
        ca: certificates that are trusted instead of the system's, in PEM.
        report: receives what is started.

    Raises:
        TpuflexError: no Python here has vLLM.
    """
    base = base_url(url)
    found = _python_with_vllm(python)
    report(f"starting vllm bench serve of {found}")
    # The generator sends the key, and its client takes a proxy that the shell names.
    environ = {
        name: text
        for name, text in child_environment(os.environ).items()
        if not name.lower().endswith("_proxy")
    }
    if ca is not None:
        environ["SSL_CERT_FILE"] = str(ca)

    def failure(said: str) -> TpuflexError:
        return TpuflexError(
            "The load generator has ended.", hint=f"It said: {both_ends(said, _SHOWN)}"
        )

    target = Target(base, model, tokenizer or model)
    with _running((found, "-P", "-c", _BOOTSTRAP), environ, failure, target, key) as generator:
        report(f"vllm bench serve {generator.version} is ready")
        yield generator


@dataclass(frozen=True, slots=True)
class Target:
    """What a generator is pointed at.

    Attributes:
        url: base URL of the server, without ``/v1``.
        model: name of the served model.
        tokenizer: directory or name in the Hub of the model's tokenizer.
        insecure: whether its certificate is taken as it is.
    """

    url: str
    model: str
    tokenizer: str
    insecure: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """The options of ``vllm bench serve`` for it, but for the URL."""
        return ("--model", self.model, "--tokenizer", self.tokenizer)


@dataclass(frozen=True, slots=True)
class HostServer:
    """The server of a host, as its docker has started it.

    Attributes:
        image: its image.
        weights: directory of its weights, in the container and on the host.
        url: its base URL, from within its own network.
        model: the first name that it serves them by.
        on_host_network: whether its network is the host's own.
    """

    image: str
    weights: str
    url: str
    model: str
    on_host_network: bool = False

    @classmethod
    def of(cls, inspected: str) -> HostServer:
        """The server that ``docker inspect`` shows.

        Args:
            inspected: what it prints, behind what gcloud does when it makes an SSH key.

        Raises:
            NotFoundError: it does not run.
            TpuflexError: that is nothing that docker says.
        """
        try:
            (container,) = json.loads(re.split(r"^(?=\[$)", inspected, flags=re.MULTILINE)[-1])
            running = container["State"]["Running"]
            image, words = container["Config"]["Image"], container["Config"]["Cmd"]

            def option(name: str) -> str:
                return str(words[words.index(name) + 1])

            address, port = option("--host"), option("--port")
            scheme = "https" if "--ssl-certfile" in words else "http"
            # Its container listens everywhere where it has a network of its own.
            address = "127.0.0.1" if ipaddress.ip_address(address).is_unspecified else address
            url = f"{scheme}://{address}:{port}"
            shared = container.get("HostConfig", {}).get("NetworkMode") == "host"
            name = option("--served-model-name")
            server = cls(str(image), option("--model"), url, name, on_host_network=shared)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            raise TpuflexError(
                f"The host's docker says of the container {CONTAINER_NAME} what cannot be read.",
                hint=Advice("`{status}` says what the host does."),
            ) from None
        if not running:
            raise NotFoundError(
                f"The container {CONTAINER_NAME} of the host does not run.",
                hint=Advice("`{logs}` says why."),
            )
        return server

    @property
    def target(self) -> Target:
        """What a generator beside it is pointed at."""
        return Target(self.url, self.model, self.weights)

    def container_words(self) -> tuple[str, ...]:
        """The command that starts a generator beside the server: in its network, with nothing of
        its devices and rights, and with its weights for their tokenizer."""
        mount = f"type=bind,source={self.weights},target={self.weights},readonly"
        environment = [f"--env={name}={value}" for name, value in _ENVIRONMENT.items()]
        return (
            *("sudo", "docker", "run", "--rm", "--interactive", "--pull", "never"),
            *("--name", CONTAINER, "--network", f"container:{CONTAINER_NAME}"),
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "4096"),
            # What it says goes to this machine, and would fill the host's disk.
            *("--log-driver", "none", "--mount", mount, *environment),
            *("--entrypoint", "python3", self.image, "-c", _BOOTSTRAP),
        )


def _said(command: HostCommand) -> str:
    """What ``command`` prints.

    Raises:
        TpuflexError: it fails.
    """
    try:
        asked = subprocess.run(
            command.words,
            env=command.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SAID_WITHIN_S,
        )
    except subprocess.TimeoutExpired as error:
        raise TpuflexError(
            f"The host does not answer within {_SAID_WITHIN_S:.0f} s.",
            hint=Advice("`{ssh}` shows more of what happens."),
        ) from error
    if asked.returncode:
        raise command.failure(asked.stderr)
    return asked.stdout


def _python_with_vllm(asked: str) -> str:
    """The first Python that has vLLM: of the one ``asked`` for, or of those at hand.

    Raises:
        NotFoundError: none has it.
    """
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    candidates = [asked] if asked else [sys.executable, shutil.which("python3") or ""]
    for python in filter(None, candidates):
        with suppress(OSError):
            tried = subprocess.run(
                [python, "-P", "-c", look],
                env=child_environment(os.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            if tried.returncode == 0:
                return python
    raise NotFoundError(
        f"There is no vLLM in {' or '.join(filter(None, candidates))}.",
        hint="Activate an environment that has it, whose python3 is then the first on PATH. Beside"
        " the server of a stack it is there: measure that without a URL.",
    )


@contextmanager
def _running(
    words: Sequence[str],
    environ: Mapping[str, str],
    failure: Callable[[str], TpuflexError],
    target: Target,
    key: str,
) -> Iterator[Generator]:
    """The generator that a command starts, while the block runs.

    It is in a process group of its own, so that Ctrl-C reaches us first. It ends with its standard
    input, which ends with this process however that ends.

    Args:
        words: those of the command.
        environ: its environment.
        failure: the error for its end, by what it has said.
        target: what it is pointed at.
        key: the server's API key.
    """
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            words,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,
        ) as process,
    ):

        def gone() -> TpuflexError:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_WITHIN_S)
            text = last_words(said)
            return failure(text.replace(key, "…") if key else text)

        try:
            yield _RunningGenerator(process, gone, target, key)
        finally:
            end_group(process, _END_WITHIN_S)


class _RunningGenerator:
    """The program at the other end of a process's standard input and output.

    Args:
        process: it.
        gone: the error for its end.
        target: what it is pointed at.
        key: the server's API key.

    Raises:
        TpuflexError: it does not start.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        gone: Callable[[], TpuflexError],
        target: Target,
        key: str,
    ) -> None:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a generator is asked, and answers, through pipes")
        self._input, self._output = process.stdin, process.stdout
        self._gone, self._target = gone, target
        program = Path(load_program.__file__).read_bytes()
        first = {"url": target.url, "key": key, "insecure": target.insecure}
        answer = self._ask(first, before=f"{len(program)}\n".encode() + program)
        self._version = str(answer.get("vllm", ""))
        if not _VERSION.fullmatch(self._version):
            raise TpuflexError("The load generator does not say which vLLM it is of.")

    @property
    def version(self) -> str:
        return self._version

    @property
    def command(self) -> tuple[str, ...]:
        return (*COMMAND, "--base-url", self._target.url, *self._target.options)

    def drive(self, load: Load) -> Drive:
        words = (*COMMAND[_PROGRAM_WORDS:], *self._target.options, *options(load))
        answer = self._ask({"options": words})
        try:
            return Drive(
                VllmResult.model_validate(answer["result"]),
                before=str(answer["before"]),
                after=str(answer["after"]),
                lag=_SECONDS.validate_python(answer["lag"]),
                busy=_SECONDS.validate_python(answer["busy"]),
                stalled=_SECONDS.validate_python(answer["stalled"]),
            )
        except (ValidationError, KeyError, TypeError, ValueError) as error:
            raise TpuflexError(
                f"The result of vllm bench serve {self._version} cannot be read:"
                f" {both_ends(str(error), _SHOWN)}"
            ) from error

    def _ask(self, document: Mapping[str, object], before: bytes = b"") -> dict[str, Any]:
        """The answer to ``document``.

        Raises:
            TpuflexError: there is none, or it says what went wrong.
        """
        with suppress(BrokenPipeError):  # then there is no answer either
            self._input.write(before + json.dumps(document).encode() + b"\n")
            self._input.flush()
        # What does not begin so is of gcloud, which says on its output that it makes an SSH key.
        left = MOST_SAID
        while not (line := self._output.readline(_MOST_BYTES)).startswith(b"{"):
            left -= len(line)
            if not line or left < 0:
                raise self._gone()
        if not line.endswith(b"\n"):
            raise self._gone()
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise TpuflexError(
                f"The load generator answers what cannot be read: {both_ends(repr(line), 200)}"
            )
        if "error" in answer:
            why = both_ends(" ".join(str(answer["error"]).split()), _SHOWN)
            raise TpuflexError(f"The load generator has failed: {why}")
        return answer
