"""What `tpuflex gateway run` costs and adds, beside other proxies before the same server.

Run with ``.venv/bin/python benchmarks/gateway.py [--runs 3] [--seconds 8] [--only NAME] [--json]``;
``--only "tpuflex gateway" --only Envoy`` measures these two, and the server itself.
One scripted server streams as vLLM does (``gateway_traffic.py``). Before it stand, in turn, so that
a busy machine slows all: nothing, our gateway with all that it does for a client (limits, a class
with sampling, prices, an access log), Envoy, HAProxy, vLLM's router and LiteLLM, each with one
worker, and the others with no policy but a key. Medians of the runs are printed; the line of
the server itself says what first tokens take without a proxy, which is subtracted from the others.

    requests of one token, 64 clients without a pause    CPU of a request: all but its tokens
    32 tokens, all in flight one each 20 ms, 64 clients  CPU of a token; what is added to the first
    4 tokens, one each 2 ms, one client                  what is added to the first token

    added to the first token     aim: p50 below 1 ms, p99 below 5 ms at 64 clients
    CPU of a request, to Envoy   aim: at most 4
    requests per CPU second, to LiteLLM    aim: at least 5

Others than ours have environments below .tpuflex/checks, made of locks with hashes; HAProxy is
Debian's, from PATH or unpacked there. What cannot be set up is left out, and said.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import psutil
import requests
import yaml

from gateway_traffic import MODEL, Traffic, ask, serve

ROOT = Path(__file__).parents[1]
CHECKS = ROOT / ".tpuflex" / "checks"
KEY = "sk-key-of-a-benchmark"
DIRECT, OURS, ENVOY, HAPROXY, ROUTER, LITELLM = (
    *("direct", "tpuflex gateway", "Envoy", "HAProxy", "vllm-router", "LiteLLM"),
)
#: Debian's packages: the program, and what it is linked with that images of Debian may not have.
_DEBS = ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")
#: Seconds until a proxy answers. LiteLLM alone takes half a minute.
_STARTS_S = 120


class NotThereError(Exception):
    """A proxy cannot be set up on this machine."""


@dataclass(frozen=True)
class Command:
    """How a proxy is started: in a directory of its own, to listen at a port of its own."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def environment(name: str) -> Path:
    """Directory of the programs of an environment below .tpuflex/checks, made if there is none."""
    made = subprocess.run(
        ["make", "--silent", f".tpuflex/checks/{name}/.ready"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        raise NotThereError((made.stderr.strip().splitlines() or ["it cannot be installed"])[-1])
    return CHECKS / name / "bin"


def ours(directory: Path, server: int, port: int) -> Command:
    upstream = {
        "url": f"http://127.0.0.1:{server}/v1",
        "model": MODEL,
        "in_flight": {"least": 256, "most": 256},
        "usd_per_million_prompt": 0.1,
        "usd_per_million_generated": 0.4,
    }
    limits = dict.fromkeys(("requests_per_minute", "requests_per_day"), 10**9)
    limits |= dict.fromkeys(("tokens_per_minute", "tokens_per_day"), 10**12)
    client = {
        "key_sha256": sha256(KEY.encode()).hexdigest(),
        "request_class": "extraction",
        "limits": {**limits, "usd_per_day": 1_000_000},
    }
    document = {
        "port": port,
        "upstreams": {"server": upstream},
        "models": {"served": {"pools": [["server"]]}},
        "clients": {"load": client},
        "access_log": "access.jsonl",
    }
    (directory / "gateway.yaml").write_text(yaml.safe_dump(document))
    (directory / "home").mkdir(mode=0o700)
    tpuflex = str(Path(sys.executable).parent / "tpuflex")
    return Command(
        (tpuflex, "gateway", "run", "--config", "gateway.yaml"),
        {"TPUFLEX_HOME": str(directory / "home")},
    )


def envoy(directory: Path, server: int, port: int) -> Command:
    def address(number: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    api = "type.googleapis.com/envoy.extensions.filters"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "server", "timeout": "0s"}}
    manager = {
        "@type": f"{api}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{api}.http.router.v3.Router"},
            }
        ],
    }
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address(server)}}]}]
    document = {
        "static_resources": {
            "listeners": [
                {
                    "address": address(port),
                    "filter_chains": [
                        {
                            "filters": [
                                {
                                    "name": "envoy.filters.network.http_connection_manager",
                                    "typed_config": manager,
                                }
                            ]
                        }
                    ],
                }
            ],
            "clusters": [
                {
                    "name": "server",
                    "type": "STATIC",
                    "load_assignment": {"cluster_name": "server", "endpoints": endpoints},
                }
            ],
        }
    }
    (directory / "envoy.yaml").write_text(yaml.safe_dump(document))
    program = str(environment("gateway-tools") / "envoy")
    once = ("--concurrency", "1", "--disable-hot-restart", "--log-level", "warn")
    return Command((program, "--config-path", "envoy.yaml", *once), {})


def haproxy(directory: Path, server: int, port: int) -> Command:
    (directory / "haproxy.cfg").write_text(
        f"""global
  nbthread 1
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
frontend in
  bind 127.0.0.1:{port}
  default_backend out
backend out
  server server 127.0.0.1:{server}
"""
    )
    found, libraries = shutil.which("haproxy"), ""
    if found is None:
        root = CHECKS / "haproxy"
        if not root.is_dir():
            _unpack(root)
        found = str(root / "usr/sbin/haproxy")
        libraries = ":".join(str(each) for each in root.glob("usr/lib/*-linux-gnu"))
    return Command((found, "-f", "haproxy.cfg"), {"LD_LIBRARY_PATH": libraries})


def _unpack(root: Path) -> None:
    """Debian's HAProxy below ``root``, which installs nothing."""
    if shutil.which("apt-get") is None:
        raise NotThereError("there is no haproxy on PATH")
    with tempfile.TemporaryDirectory() as directory:
        loaded = subprocess.run(
            ["apt-get", "download", *_DEBS], cwd=directory, capture_output=True, check=False
        )
        if loaded.returncode != 0:
            raise NotThereError("apt-get cannot download it: `apt-get update`")
        for each in Path(directory).glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(each), directory + "/root"], check=True)
        shutil.copytree(directory + "/root", root, symlinks=True)


def router(directory: Path, server: int, port: int) -> Command:
    del directory
    program = str(environment("vllm-router") / "vllm-router")
    arguments = [program, "--worker-urls", f"http://127.0.0.1:{server}", "--policy", "round_robin"]
    arguments += ["--port", str(port), "--prometheus-port", str(free_port())]
    return Command((*arguments, "--log-level", "warning"), {})


def litellm(directory: Path, server: int, port: int) -> Command:
    upstream = {"model": f"openai/{MODEL}", "api_key": "none"}
    upstream["api_base"] = f"http://127.0.0.1:{server}/v1"
    document = {"model_list": [{"model_name": "served", "litellm_params": upstream}]}
    (directory / "litellm.yaml").write_text(yaml.safe_dump(document))
    program = str(environment("litellm") / "litellm")
    arguments = ("--config", "litellm.yaml", "--host", "127.0.0.1", "--port", str(port))
    # As its guide to production says; and without a look at GitHub for prices.
    quiet = {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return Command(
        (program, *arguments, "--num_workers", "1"), {"LITELLM_MASTER_KEY": KEY, **quiet}
    )


PROXIES: Mapping[str, Callable[[Path, int, int], Command]] = {
    OURS: ours,
    ENVOY: envoy,
    HAPROXY: haproxy,
    ROUTER: router,
    LITELLM: litellm,
}


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs."""

    name: str
    port: int
    process: psutil.Process | None

    def cpu(self) -> float:
        """Seconds of CPU that it has used, with all its processes."""
        if self.process is None:
            return 0.0
        family = (self.process, *self.process.children(recursive=True))
        return sum(sum(each.cpu_times()[:2]) for each in family)


@contextmanager
def running(name: str, server: int) -> Iterator[Proxy]:
    """A proxy before the server, once it has answered.

    Raises:
        NotThereError: it cannot be set up, or does not answer.
    """
    with tempfile.TemporaryDirectory(prefix="tpuflex-bench-") as made:
        directory, port = Path(made), free_port()
        command = PROXIES[name](directory, server, port)
        with (directory / "output").open("wb") as output:
            process = psutil.Popen(
                command.arguments,
                cwd=directory,
                env={**os.environ, **command.environment},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            if not _answers(process, port):
                said = (directory / "output").read_text(errors="replace").strip().splitlines()
                raise NotThereError(f"it does not answer: {(said or ['it says nothing'])[-1]}")
            yield Proxy(name, port, process)
        finally:
            family = (process, *process.children(recursive=True))
            for each in family:
                each.terminate()
            for each in psutil.wait_procs(family, timeout=10)[1]:
                each.kill()


def _answers(process: psutil.Popen, port: int) -> bool:
    ends = time.monotonic() + _STARTS_S
    while time.monotonic() < ends and process.poll() is None:
        try:
            response = requests.post(
                f"http://127.0.0.1:{port}/v1/chat/completions",
                json={"model": "served", "messages": [{"role": "user", "content": "One."}]},
                headers={"Authorization": f"Bearer {KEY}"},
                timeout=30,
            )
        except requests.RequestException:
            time.sleep(0.2)
        else:
            return bool(response.status_code == requests.codes.ok)
    return False


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass(frozen=True)
class Figures:
    """What a proxy does and adds; milliseconds on the way of first tokens, microseconds of CPU."""

    p50_1: float
    p99_1: float
    p50_64: float
    p99_64: float
    cpu_request: float
    cpu_token: float
    cpu_answer: float
    per_cpu_second: float


TOKENS = 32


def measured(proxy: Proxy, seconds: float) -> Figures:
    """One run."""

    def asked(clients: int, tokens: int, step_ms: int, pause: float) -> tuple[Traffic, float]:
        before = proxy.cpu()
        traffic = ask(
            proxy.port,
            KEY,
            clients=clients,
            seconds=seconds,
            tokens=tokens,
            step_ms=step_ms,
            pause=pause,
        )
        used = proxy.cpu() - before
        if traffic.failures:
            sys.exit(
                f"{proxy.name}: {len(traffic.failures)} requests failed: {traffic.failures[0]}"
            )
        return traffic, used / traffic.requests * 1e6

    alone, _ = asked(1, 4, 2, 0.002)
    streams, answer = asked(64, TOKENS, 20, 0.05)
    _, request = asked(64, 1, 0, 0)
    (p50_1, p99_1), (p50_64, p99_64) = (
        (quantiles[49] / 1e6, quantiles[98] / 1e6)
        for quantiles in (statistics.quantiles(each.first, n=100) for each in (alone, streams))
    )
    return Figures(
        *(p50_1, p99_1, p50_64, p99_64),
        cpu_request=request,
        cpu_token=(answer - request) / (TOKENS - 1),
        cpu_answer=answer,
        per_cpu_second=1e6 / request if request else 0.0,
    )


def medians(all_figures: list[Figures], direct: Figures | None) -> Figures:
    """The medians of the runs, without what is on the way also without a proxy."""
    columns = {
        name: statistics.median(getattr(each, name) for each in all_figures)
        for name in Figures.__dataclass_fields__
    }
    if direct is not None:
        for name in ("p50_1", "p99_1", "p50_64", "p99_64"):
            columns[name] -= getattr(direct, name)
    return Figures(**columns)


def shown(results: Mapping[str, Figures]) -> Iterator[str]:
    """The lines that are printed."""
    yield "                   added to the first token, ms    CPU of one, µs               requests"
    yield "                       1 client      64 clients     request  further   answer    per CPU"
    yield (
        f"                    p50     p99     p50     p99  of 1 token    token    of {TOKENS}"
        "     second"
    )
    for name, each in results.items():
        first = "".join(
            f"{milliseconds:8.2f}" if milliseconds < 1000 else f"{milliseconds:8.0f}"
            for milliseconds in (each.p50_1, each.p99_1, each.p50_64, each.p99_64)
        )
        if name == DIRECT:
            yield f"{name:15}{first}"
            continue
        yield (
            f"{name:15}{first}{each.cpu_request:12.0f}{each.cpu_token:9.0f}{each.cpu_answer:9.0f}"
            f"{each.per_cpu_second:11.0f}"
        )


def ratios(results: Mapping[str, Figures]) -> dict[str, tuple[float, str]]:
    """Ours to others, and the aims."""
    found = dict[str, tuple[float, str]]()
    if OURS in results:
        mine = results[OURS]
        found["added to the first token at 64 clients, p50, ms"] = (mine.p50_64, "below 1")
        found["added to the first token at 64 clients, p99, ms"] = (mine.p99_64, "below 5")
        if ENVOY in results:
            other = results[ENVOY]
            found["CPU of a request of one token, to Envoy"] = (
                mine.cpu_request / other.cpu_request,
                "at most 4",
            )
            found[f"CPU of a request of {TOKENS} tokens, to Envoy"] = (
                mine.cpu_answer / other.cpu_answer,
                "at most 4",
            )
        if LITELLM in results:
            found["requests per CPU second, to LiteLLM"] = (
                mine.per_cpu_second / results[LITELLM].per_cpu_second,
                "at least 5",
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each kind of requests")
    parser.add_argument(
        "--only",
        action="append",
        choices=tuple(PROXIES),
        help="measure this one, beside the server itself; may be given again",
    )
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    port, left_out = free_port(), dict[str, str]()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(port,), daemon=True)
    server.start()
    with ExitStack() as opened:
        opened.callback(server.terminate)
        proxies = [Proxy(DIRECT, port, None)]
        for name in asked.only or PROXIES:
            try:
                proxies.append(opened.enter_context(running(name, port)))
            except NotThereError as error:
                left_out[name] = str(error)
        runs: dict[str, list[Figures]] = {each.name: [] for each in proxies}
        for each in proxies:  # warms up
            measured(each, 1.0)
        for _ in range(asked.runs):
            for each in proxies:
                runs[each.name].append(measured(each, asked.seconds))
    direct = medians(runs[DIRECT], None)
    results = {
        name: direct if name == DIRECT else medians(each, direct) for name, each in runs.items()
    }
    if asked.json:
        document = {
            "proxies": {name: asdict(each) for name, each in results.items()},
            "ratios": {what: ratio for what, (ratio, _) in ratios(results).items()},
            "left_out": left_out,
        }
        print(json.dumps(document, indent=2))
        return
    for line in shown(results):
        print(line)
    for name, why in left_out.items():
        print(f"{name} is left out: {why}")
    for what, (ratio, aim) in ratios(results).items():
        print(f"{what:50}{ratio:7.2f}   aim: {aim}")


if __name__ == "__main__":
    main()
