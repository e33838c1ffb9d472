"""The load generator: its program beside a vLLM that is a page of Python, and how it is started."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.embedded_cloud.api import eventually
from tests.measure.fake_server import AFTER, BEFORE, KEY, FakeServer
from tpuflex.errors import NotFoundError, TpuflexError, UsageError
from tpuflex.measure.load import CONTAINER, HostServer, Target, here, options
from tpuflex.measure.load_program import LONGEST_ERROR, TICK_S, Ticker, shortened
from tpuflex.measure.run import Load

LOAD = Load(concurrency=3, context=64, output=16, requests=12, shared=24, seed=7)
#: `vllm.benchmarks.serve` as far as the program asks: the model's name says how it fares.
BENCH = '''
import asyncio, json, os, resource, sys, time
from pathlib import Path

print("vLLM prints what it likes")
ARGUMENTS = """backend endpoint dataset-name random-input-len random-prefix-len random-output-len
    num-prompts max-concurrency seed model tokenizer base-url temperature ready-check-timeout-sec
    percentile-metrics extra-body"""


def add_cli_args(parser):
    for name in {*ARGUMENTS.split()} - {os.environ.get("WITHOUT")}:
        parser.add_argument(f"--{name}")
    for name in ("ignore-eos", "save-detailed", "disable-tqdm", "insecure"):
        parser.add_argument(f"--{name}", action="store_true")


async def main_async(args):
    print("also to the standard output")
    key = os.environ.get("OPENAI_API_KEY")
    words = Path("/proc/self/cmdline").read_text()
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = dict(arguments=vars(args), key=key, pid=os.getpid(), words=words, files=files)
    seen["environment"] = [*os.environ]
    Path(os.environ["SEEN"]).write_text(json.dumps(seen))
    if args.model == "fails":
        raise ValueError(f"no load with {key}: " + 1000 * "x")
    if args.model == "dies":
        sys.stderr.write(f"killed with {key}\\n")
        os._exit(3)
    if args.model == "hangs":
        await asyncio.sleep(1000)
    begin = time.perf_counter()
    await asyncio.sleep(0.1)
    if args.model == "stalls":
        time.sleep(0.3)
    return {
        "duration": 0.5, "completed": 1, "failed": 1, "total_input_tokens": 64,
        "total_output_tokens": 16, "request_throughput": 2.0, "output_throughput": 32.0,
        "max_concurrency": 3, "num_prompts": 2, "model_id": args.model, "date": "20261129-010000",
        "request_goodput": None, "input_lens": [64, 64], "output_lens": [16, 0],
        "ttfts": [0.1, 0.0], "itls": [[0.01234567, 0.02], []], "latencies": [0.4, 0.0],
        "start_times": [begin, begin], "errors": ["", f"refused {key}"],
        "generated_texts": ["text", ""],
    }
'''


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], dict[str, Any]]:
    """Puts the vLLM of this file where a Python finds it; what it has seen."""
    package = tmp_path / "modules" / "vllm"
    (package / "benchmarks").mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '0.32.0'\n")
    (package / "benchmarks" / "__init__.py").touch()
    (package / "benchmarks" / "serve.py").write_text(BENCH)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    return lambda: dict(json.loads((tmp_path / "seen.json").read_text()))


def test_a_load_is_driven_and_what_it_measured_comes_back(
    seen: Callable[[], dict[str, Any]],
) -> None:
    """Every point goes through one process, with its own options, between two looks at the server's
    counters; the key is in no argument, and in no error that comes back."""
    with FakeServer().running() as server, here(server.endpoint, "m", key=KEY) as generator:
        assert generator.version == "0.32.0"
        drive = generator.drive(LOAD)
        first = seen()
        again = generator.drive(LOAD.model_copy(update={"seed": 8}))

    assert (drive.before, drive.after, again.before) == (BEFORE, AFTER, AFTER)
    assert drive.result.itls == ((0.012346, 0.02), ())
    assert drive.result.errors == ("", "refused …")
    assert 0 <= drive.lag < 0.3
    assert 0 <= drive.busy < 1
    assert first["key"] == KEY
    assert KEY not in first["words"]
    assert (first["pid"], first["arguments"]["seed"]) == (seen()["pid"], "7")
    expected = {"random_input_len": "40", "max_concurrency": "3", "model": "m", "tokenizer": "m"}
    assert {name: first["arguments"][name] for name in expected} == expected
    assert first["arguments"]["base_url"] == server.endpoint.removesuffix("/v1")
    assert not first["arguments"]["insecure"]
    eventually(lambda: not psutil.pid_exists(first["pid"]))


def test_a_connection_per_request_can_be_open(seen: Callable[[], dict[str, Any]]) -> None:
    """The generator may have as many files open as the system allows, whatever it begins with."""
    before = _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most // 2, most))
    try:
        with FakeServer().running() as server, here(server.endpoint, "m", key=KEY) as generator:
            generator.drive(LOAD)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert seen()["files"] == [most, most]


def test_a_generator_that_stood_still_says_so(seen: Callable[[], dict[str, Any]]) -> None:
    """An event loop that serves nobody for a while is late to its next look at the clock."""
    del seen
    with FakeServer().running() as server, here(server.endpoint, "stalls", key=KEY) as generator:
        assert generator.drive(LOAD).lag >= 0.3 - 2 * TICK_S


#: When the clock was looked at, and the processor taken until then.
LOOKS = ((0.0, 0.0), (0.01, 0.001), (0.02, 0.002), (0.2, 0.12), (0.21, 0.12), (0.22, 0.12))


@pytest.mark.parametrize(
    ("first", "last", "lag", "busy", "stalled"),
    [
        (0.0, 0.22, 0.17, 0.12 / 0.22, 0.052),
        (-1.0, 9.0, 0.17, 0.12 / 0.22, 0.052),
        (0.0, 0.02, 0.0, 0.1, 0.0),
        (0.21, 0.22, 0.0, 0.0, 0.0),
        (0.1, 0.3, 0.1, 0.118 / 0.2, 0.0),
        (0.1, 0.15, 0.05, 0.118 / 0.18, 0.0),
    ],
)
def test_only_what_happens_while_requests_are_open_counts(
    first: float, last: float, lag: float, busy: float, stalled: float
) -> None:
    """A stall counts as far as it lies between the first request and the end of the last one, the
    processor between the looks around that. Where it computed it did not stand still."""
    ticker = Ticker()
    for now, processor in LOOKS:
        ticker.tick(now, processor)
    assert ticker.between(first, last) == pytest.approx((lag, busy, stalled))


def test_a_load_that_fails_leaves_the_generator(seen: Callable[[], dict[str, Any]]) -> None:
    """What vLLM raises is the error of that load, without the key; the next one is driven."""
    del seen
    with FakeServer().running() as server, here(server.endpoint, "fails", key=KEY) as generator:
        for _ in range(2):
            with pytest.raises(TpuflexError) as caught:
                generator.drive(LOAD)
            assert "failed: … xxx" in caught.value.message
            assert KEY not in str(caught.value)
            assert len(caught.value.message) < LONGEST_ERROR + 50


def test_a_generator_that_is_gone_says_what_it_said_last(
    seen: Callable[[], dict[str, Any]],
) -> None:
    """Its last words are in the error, without the key."""
    del seen
    with FakeServer().running() as server, here(server.endpoint, "dies", key=KEY) as generator:
        for _ in range(2):
            with pytest.raises(TpuflexError, match="has ended") as caught:
                generator.drive(LOAD)
            assert "killed with …" in str(caught.value.hint)


def test_options_that_this_vllm_does_not_take_are_named(
    seen: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version may take other options: its refusal is the error."""
    del seen
    monkeypatch.setenv("WITHOUT", "temperature")
    with (
        FakeServer().running() as server,
        here(server.endpoint, "m", key=KEY) as generator,
        pytest.raises(TpuflexError, match=r"does not take .* --temperature"),
    ):
        generator.drive(LOAD)


@pytest.mark.parametrize(
    ("key", "documents", "why"),
    [
        ("sk-wrong", {}, "/v1/models refuses the API key"),
        (KEY, {"/v1/models": [500]}, "/v1/models answers 500"),
    ],
)
def test_a_server_that_does_not_serve_is_found_first(
    seen: Callable[[], dict[str, Any]], key: str, documents: dict[str, list[str | int]], why: str
) -> None:
    """Before vLLM is loaded, which takes long, the server is asked with the key."""
    del seen
    fake = FakeServer()
    fake.documents |= documents
    with (
        fake.running() as server,
        pytest.raises(TpuflexError, match=why),
        here(server.endpoint, "m", key=key),
    ):
        pass


def test_a_server_that_is_not_there(seen: Callable[[], dict[str, Any]]) -> None:
    """So is one to which nothing can be connected."""
    del seen
    with FakeServer().running() as server:
        url = server.endpoint
    with pytest.raises(TpuflexError, match="does not answer"), here(url, "m"):
        pass


def test_a_vllm_without_a_benchmark_is_named(
    seen: Callable[[], dict[str, Any]], tmp_path: Path
) -> None:
    """What is called vLLM may lack it, or what it needs itself."""
    del seen
    (tmp_path / "modules" / "vllm" / "benchmarks" / "serve.py").write_text("import no_such_module")
    why = "vllm bench serve cannot be loaded: No module named 'no_such_module'"
    with (
        FakeServer().running() as server,
        pytest.raises(TpuflexError, match=why),
        here(server.endpoint, "m", key=KEY),
    ):
        pass


def test_a_server_without_counters_is_driven_all_the_same(
    seen: Callable[[], dict[str, Any]],
) -> None:
    """Not every OpenAI server has `/metrics`, or wants a key."""
    fake = FakeServer(key="")
    fake.documents["/metrics"] = [404]
    with fake.running() as server, here(server.endpoint, "m") as generator:
        drive = generator.drive(LOAD)
    assert (drive.before, drive.after) == ("", "")
    assert seen()["key"] is None


def test_a_python_without_vllm_is_named(tmp_path: Path) -> None:
    """Of the one that was asked for, and of those at hand."""
    missing = str(tmp_path / "python")
    with (
        pytest.raises(NotFoundError, match=f"no vLLM in {missing}"),
        here("http://localhost", "m", python=missing),
    ):
        pass
    with (
        pytest.raises(NotFoundError, match=f"no vLLM in {sys.executable} or"),
        here("http://localhost", "m"),
    ):
        pass
    with pytest.raises(UsageError, match="begins with http"), here("file:///etc/passwd", "m"):
        pass


@pytest.mark.parametrize("url", ["http://u:sk-1@h", "http://h/?key=sk-1", "http://h/#sk-1"])
def test_a_url_with_a_secret_is_refused(url: str) -> None:
    """Files and errors would repeat it; the error does not."""
    with pytest.raises(UsageError, match="no user, password") as refused, here(url, "m"):
        pass
    assert "sk-1" not in str(refused.value)


def test_no_proxy_of_the_shell_gets_the_key(
    seen: Callable[[], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither our own requests nor vLLM's find one."""
    for name in ("http_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with FakeServer().running() as server, here(server.endpoint, "m", key=KEY) as generator:
        generator.drive(LOAD)
    assert not [name for name in seen()["environment"] if name.lower().endswith("_proxy")]


#: Drives a load that does not end.
HANGS = """
import sys
from tpuflex.measure.load import here
from tpuflex.measure.run import Load
with here(sys.argv[1], "hangs", key=sys.argv[2]) as generator:
    generator.drive(Load(concurrency=1, context=8, output=1, requests=1))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_when_its_user_ends(
    seen: Callable[[], dict[str, Any]], how: signal.Signals
) -> None:
    """Ctrl-C in the middle of a load, and a kill that nobody can answer, end the generator too."""
    with (
        FakeServer().running() as server,
        subprocess.Popen(
            [sys.executable, "-c", HANGS, server.endpoint, KEY], stderr=subprocess.DEVNULL
        ) as user,
    ):
        eventually(lambda: Path(os.environ["SEEN"]).exists() and "pid" in seen())
        generator = seen()["pid"]
        user.send_signal(how)
        user.wait(timeout=30)
    eventually(lambda: not psutil.pid_exists(generator), within=30)


def inspected(*, host: str, tls: bool = False, running: bool = True) -> str:
    """What `docker inspect` says of a server that the startup script has started."""
    certificate = ["--ssl-certfile", "/c.pem", "--ssl-keyfile", "/k.pem"] if tls else []
    words = ["/g/entrypoint.sh", "/g", "--model", "/w/1", "--served-model-name", "org/m", "alias"]
    container = {
        "State": {"Running": running},
        "Config": {
            "Image": "vllm/vllm-tpu@sha256:1",
            "Cmd": [*words, "--host", host, "--port", "8000", *certificate],
        },
    }
    return f"Generating public/private rsa key pair.\n{json.dumps([container], indent=4)}\n"


@pytest.mark.parametrize(
    ("host", "tls", "url"),
    [
        ("0.0.0.0", False, "http://127.0.0.1:8000"),  # noqa: S104 - of a network of its own
        ("10.0.0.2", False, "http://10.0.0.2:8000"),
        ("0.0.0.0", True, "https://127.0.0.1:8000"),  # noqa: S104
    ],
)
def test_the_servers_container_says_where_it_listens(host: str, tls: bool, url: str) -> None:
    """An isolated one has a network of its own, in which its generator is too."""
    server = HostServer.of(inspected(host=host, tls=tls))
    assert server.target == Target(url, "org/m", "/w/1")


def test_the_generators_container_has_nothing_but_the_weights() -> None:
    """It gets the server's image and network, and neither devices, rights nor a key."""
    words = HostServer.of(inspected(host="10.0.0.2")).container_words()
    line = " ".join(words)
    assert words[:4] == ("sudo", "docker", "run", "--rm")
    assert f"--name {CONTAINER} --network container:vllm --cap-drop ALL" in line
    assert "--mount type=bind,source=/w/1,target=/w/1,readonly" in line
    assert "--entrypoint python3 vllm/vllm-tpu@sha256:1 -c import sys" in line
    assert not {"--device", "--privileged", "--publish"} & set(words)
    assert "KEY" not in line


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (inspected(host="10.0.0.2", running=False), NotFoundError),
        ("[]", TpuflexError),
        ("Attempting to connect", TpuflexError),
        ('[{"State": {"Running": true}, "Config": {"Image": "i", "Cmd": null}}]', TpuflexError),
        (inspected(host="somewhere"), TpuflexError),
    ],
)
def test_a_container_that_is_no_server_is_refused(text: str, kind: type[TpuflexError]) -> None:
    """One that does not run, and what docker does not say."""
    with pytest.raises(kind, match="container vllm"):
        HostServer.of(text)


def test_the_shared_part_is_part_of_the_context() -> None:
    """A prompt of a series with a shared beginning is as long as one without."""
    words = dict(zip(options(LOAD)[::2], options(LOAD)[1::2], strict=True))
    assert (words["--random-input-len"], words["--random-prefix-len"]) == ("40", "24")


def test_the_end_of_an_error_is_kept() -> None:
    """What went wrong stands last in a traceback."""
    assert shortened("short\n") == "short"
    kept = shortened(1000 * "x" + "why")
    assert (len(kept), kept[:2], kept[-3:]) == (LONGEST_ERROR, "… ", "why")
