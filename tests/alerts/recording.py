"""What a real vLLM 0.32 on the CPU said while it was idle, busy, overloaded, frozen and gone.

``recorded/vllm.json`` has it; ``python -m tests.alerts.recording`` records it again: seven minutes.
One look was taken each second, and counts as one of 20 s: rules look back over half an hour.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

FILE = Path(__file__).parent / "recorded" / "vllm.json"
#: Seconds that a look counts for.
INTERVAL = 20
BEGIN = datetime(2026, 11, 29, tzinfo=UTC)
#: The families that rules ask for.
FAMILIES = (
    "vllm:kv_cache_usage_perc",
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:num_preemptions",
    "vllm:generation_tokens",
    "vllm:time_to_first_token_seconds",
)
#: Edges of the histogram that are kept.
EDGES = ("0.5", "0.75", "1.0", "2.5", "5.0", "+Inf")


@dataclass(frozen=True)
class Recording:
    """Looks at a server.

    Attributes:
        stages: what was done to the server -> the first look of it.
        series: each series with its labels -> its value at each look; None while nothing answers.
    """

    stages: dict[str, int]
    series: dict[str, list[float | None]]

    @property
    def looks(self) -> int:
        """How many there are."""
        return len(next(iter(self.series.values())))

    def at(self, look: int) -> datetime:
        """When a look was taken."""
        return BEGIN + timedelta(seconds=look * INTERVAL)

    def text(self, look: int) -> str | None:
        """What ``GET /metrics`` answered; None for nothing."""
        values = {name: values[look] for name, values in self.series.items()}
        if None in values.values():
            return None
        return "".join(f"{name} {value}\n" for name, value in values.items())


def recorded(case: str = "recorded") -> Recording:
    """The recording: as it is, or as it would have been in one of :data:`FIRING`'s other cases."""
    found = Recording(**json.loads(FILE.read_text()))
    return replace(
        found, series={name: _CASES[case](name, of) for name, of in found.series.items()}
    )


def _nobody_waits(name: str, values: list[float | None]) -> list[float | None]:
    waiting = name.startswith("vllm:num_requests_waiting")
    return [value and 0.0 for value in values] if waiting else values


def _few_requests(name: str, values: list[float | None]) -> list[float | None]:
    """A sixteenth of the first tokens."""
    counted = name.startswith("vllm:time_to_first_token_seconds")
    return [value and value // 16 for value in values] if counted else values


_CASES: Mapping[str, Callable[[str, list[float | None]], list[float | None]]] = {
    "recorded": lambda _name, values: values,
    "nobody waits": _nobody_waits,
    "few requests": _few_requests,
}
#: Case -> alert -> the first and the last look of each time that it fires, with the thresholds that
#: are there without others.
FIRING: Mapping[str, Mapping[str, Sequence[tuple[int, int]]]] = {
    "recorded": {
        "KvCacheFull": (
            *((177, 189), (196, 212), (224, 230), (235, 238), (243, 246), (251, 268), (276, 283)),
            *((292, 299), (304, 306), (311, 347)),
        ),
        "RequestsWaiting": ((108, 151), (173, 345)),
        "FirstTokenSlow": ((115, 166), (183, 186), (199, 250), (265, 324), (351, 359)),
        "FirstTokenVerySlow": ((115, 143), (199, 250), (265, 324), (351, 359)),
        "NoTokens": ((322, 340),),
        "TargetDown": ((358, 366),),
    },
    # Of a full cache, preemptions alone are a problem.
    "nobody waits": {
        "KvCacheFull": (
            *((196, 212), (224, 230), (235, 238), (243, 246), (251, 268), (276, 283), (292, 299)),
            *((304, 306), (311, 324)),
        )
    },
    "few requests": {"FirstTokenSlow": (), "FirstTokenVerySlow": ()},
}


def fires(case: str, alert: str, look: int) -> bool:
    """Whether ``alert`` fires at a look."""
    return any(first <= look <= last for first, last in FIRING[case][alert])


@dataclass(frozen=True)
class Load:
    """Requests that are open at once; what is open at the end of the stage is answered after it.

    Attributes:
        clients: how many.
        tokens: what each asks for.
        times: how often its prompt says the same, some 14 tokens each time.
    """

    clients: int
    tokens: int
    times: int = 1


#: What was done to the server, and for how many seconds. Eight sequences are computed at once, and
#: their KV cache has twelve blocks of 128 tokens.
STAGES: tuple[tuple[str, int, Load], ...] = (
    ("idle", 10, Load(0, 0)),
    ("steady", 95, Load(1, 8)),
    ("busy", 45, Load(14, 16)),
    ("calm", 20, Load(1, 8)),
    ("overloaded", 70, Load(30, 180, times=7)),
    ("emptied", 70, Load(0, 0)),
    ("frozen", 30, Load(2, 400)),
    ("thawed", 15, Load(0, 0)),
    ("down", 12, Load(0, 0)),
)


def _record() -> None:
    from tests.security.vllm_host import smollm2_directory, vllm_python

    with socket.socket() as free, tempfile.TemporaryDirectory() as home:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        environment = {
            **{"PATH": os.defpath, "HOME": home, "HF_HUB_OFFLINE": "1"},
            **{"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"},
        }
        server = subprocess.Popen(
            [
                *(str(vllm_python()), "-m", "vllm.entrypoints.openai.api_server"),
                *("--model", str(smollm2_directory()), "--served-model-name", "tiny"),
                *("--host", "127.0.0.1", "--port", str(port), "--dtype", "bfloat16"),
                *("--max-model-len", "512", "--max-num-seqs", "8", "--enforce-eager"),
                *("--num-gpu-blocks-override", "13"),
            ],
            env=environment,
            start_new_session=True,
        )
        try:
            document = _looks(f"http://127.0.0.1:{port}", server)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    FILE.write_text(json.dumps(document, separators=(",", ":")).replace('],"', '],\n"') + "\n")


def _looks(url: str, server: subprocess.Popen[bytes]) -> dict[str, object]:
    import psutil

    while not _answers(url):
        assert server.poll() is None
        time.sleep(1)
    looks: list[dict[str, float]] = []
    stages: dict[str, int] = {}
    for name, seconds, load in STAGES:
        stages[name] = len(looks)
        done = threading.Event()
        for client in range(load.clients):
            threading.Thread(target=_ask, args=(url, load, client, done), daemon=True).start()
        engines = [
            each
            for each in psutil.Process(server.pid).children(recursive=True)
            if "VLLM::" in "".join(each.cmdline())
        ]
        if name == "frozen":
            time.sleep(3)
            for each in engines:
                each.send_signal(signal.SIGSTOP)
        if name == "thawed":
            for each in engines:
                each.send_signal(signal.SIGCONT)
        if name == "down":
            os.killpg(server.pid, signal.SIGKILL)
        for _ in range(seconds):
            began = time.monotonic()
            looks.append(_look(url))
            time.sleep(max(0.0, began + 1 - time.monotonic()))
        done.set()
    names = dict.fromkeys(name for look in looks for name in look)
    return {
        "stages": stages,
        "series": {name: [look.get(name) for look in looks] for name in names},
    }


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/health", timeout=5).ok
    except requests.RequestException:
        return False


def _look(url: str) -> dict[str, float]:
    try:
        text = requests.get(f"{url}/metrics", timeout=5).text
    except requests.RequestException:
        return {}
    return {
        "{}{{{}}}".format(
            sample.name, ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
        ): sample.value
        for family in text_string_to_metric_families(text)
        if family.name in FAMILIES
        for sample in family.samples
        if not sample.name.endswith("_created") and sample.labels.get("le", "1.0") in EDGES
    }


def _ask(url: str, load: Load, client: int, done: threading.Event) -> None:
    number = 0
    while not done.is_set():
        number += 1
        body = {
            "model": "tiny",
            "prompt": f"Client {client}, question {number}: tell a story of the sea. " * load.times,
            "max_tokens": load.tokens,
            "ignore_eos": True,
        }
        try:
            requests.post(f"{url}/v1/completions", json=body, timeout=600)
        except requests.RequestException:
            return


if __name__ == "__main__":
    _record()
