"""What a server that has died says of itself: the end of its log, and which kind of failure it is.

Run by the startup script with the log on standard input. ``server_log.py DIRECTORY COUNT`` prints
the last lines without the secrets in DIRECTORY, after the cause if that stands further up;
``server_log.py DIRECTORY failure`` prints the kind of the failure and what helps, each on a line,
and nothing for a failure that is none of those below. The log is for people: a model's files and
clients have a say in it, so nothing may be allowed because of it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

#: Kind, words of the log, what helps. The words are those of vLLM 0.32.0 and of the libraries with
#: which it loads a model.
KINDS = (
    (
        "arguments",
        r"api_server\.py: error: |KeyError: .*invalid tool call parser"
        r"|KeyError: .*Reasoning parser .* not found",
        "change tpuflex:serving.flags or extra_args",
    ),
    (
        "tokenizer",
        r"Error: .*(?:instantiate the backend tokenizer|load tokenizer)"
        r"|Error: Tokenizer class \S+ does not exist"
        r"|Exception: data did not match any variant of untagged enum",
        "push weights with the model's tokenizer",
    ),
    (
        "weights",
        r"SafetensorError|Error: Weight files referenced in index but missing"
        r"|Cannot find any model weights|not initialized from checkpoint"
        r"|Error: There is no module or parameter",
        "push all weights of the model that config.json describes",
    ),
    ("shared memory", r"No space left on device", "raise tpuflex:serving.shm_size"),
    # A chip's other memories are the compiler's: what does not fit there is no fault of the model's
    # size. The words are from reports (pytorch/xla 9524, vllm 8318, jax 23989 and 29520).
    (
        "compilation",
        r"Ran out of memory in memory space [sv]mem|Mosaic failed to compile|BackendCompilerFailed"
        r"|InductorError|XlaRuntimeError: INTERNAL: .*[Cc]ompil",
        "lower max_model_len or max_num_batched_tokens, or take another image",
    ),
    (
        "memory",
        r"RESOURCE_EXHAUSTED|KV cache is needed|No available memory for the cache blocks"
        r"|OutOfMemoryError|Free memory on device .* is less than",
        "see `tpuflex memory`",
    ),
    (
        "configuration",
        r"validation errors? for \w*Config\b|[Vv]alue ?[Ee]rror[:,] User-specified max_model_len",
        "change tpuflex:serving.flags, or the model's config.json",
    ),
    # The only kind that more rights on the host mend: libtpu may not open a chip, or not ask for
    # what describes it. Its words are from reports (pytorch/xla issues 8735 and 9604, google/gvisor
    # 10923) and in libtpu 0.0.48; they count in an exception of PyTorch/XLA or JAX. It is last
    # because the others occur before a chip is touched. A chip that another process holds is no
    # such failure.
    (
        "device",
        r"^[\w.]*RuntimeError: (?!.*resource busy).*(?:"
        r"(?:/dev/(?:vfio/|accel)|Couldn't mmap).*(?:not permitted|Permission denied|No such file"
        r"|No such device|Cannot allocate|temporarily unavailable)"
        r"|Could(?:n't| not) (?:open|wrap fd for|populate|construct|parse) (?:iommu.group|vfio)"
        r"|TPU initialization failed: Failed to connect to \[::\]"
        r"|Failed to get TPU metadata|No TPU Platform available)",
        "if you trust the model's files, tpuflex:serving.isolation: none gives the server all"
        " rights on the host",
    ),
)
#: What uvicorn and vLLM log of any client's question, with words of that client's choice.
OF_CLIENTS = re.compile(
    r' - "[^ ]+ .* HTTP/[\d.]+" \d{3}|without completing handshake|\] Received request '
)
#: What vLLM lists when it begins to serve: its routes, fifty lines that say nothing of its end.
_ROUTES = re.compile(r"\] (?:Available routes are:|Route: /)")
#: A line of vLLM's log begins with the process, the time and the place.
PREFIX = re.compile(r"^\(\w[^)]*\) ?(?:[A-Z]+ [\d-]+ [\d:]+ \[[\w.]+:\d+\] ?)?")
#: Colours and other controls of a terminal; they could stand within a secret.
_CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\0-\b\v\f\x0e-\x1f\x7f-\x9f]"
)
_LINE_CHARACTERS, _CHARACTERS = 300, 3000
#: How much of either end of a line is kept: searches take the square of its length.
_SEARCHED_CHARACTERS = 1000


def server_lines(text: str, directory: Path) -> list[str]:
    """What the server itself wrote, line by line, without secrets, the middle of long lines and the
    list of its routes."""
    text = _CONTROLS.sub("", text)
    for file in directory.iterdir():
        for secret in file.read_text(encoding="utf-8", errors="replace").split():
            text = text.replace(secret, "[removed]")
    lines = [shortened(line.strip()) for line in text.splitlines()]
    left_out = (OF_CLIENTS, _ROUTES)
    return [line for line in lines if line and not any(each.search(line) for each in left_out)]


def shortened(line: str) -> str:
    """Both ends of a long ``line``, as it is searched."""
    if len(line) <= 2 * _SEARCHED_CHARACTERS:
        return line
    return f"{line[:_SEARCHED_CHARACTERS]}…{line[-_SEARCHED_CHARACTERS:]}"


def failure(lines: list[str]) -> tuple[str, str, str] | None:
    """Kind, remedy and cause of what ``lines`` end with; None if it is of no known kind."""
    for kind, words, remedy in KINDS:
        for number, line in enumerate(lines):
            if re.search(words, PREFIX.sub("", line)):
                # Pydantic says below that line which value is wrong.
                said = lines[number : number + 3] if kind == "configuration" else [line]
                return kind, remedy, PREFIX.sub("", " ".join(said))[:_LINE_CHARACTERS]
    return None


def last_lines(lines: list[str], count: int) -> str:
    """The last lines after the cause; of one line the cause alone, if there is one."""
    found = failure(lines)
    causes = [found[2]] if found else [line for line in lines if "error:" in line.lower()][-1:]
    last = lines[-count:]
    if count == 1:
        last = causes or last
    elif found and not any(found[2].startswith(PREFIX.sub("", line)[:99]) for line in last):
        last = causes + last
    return "\n".join(line[:_LINE_CHARACTERS] for line in last)[-_CHARACTERS:]


def main() -> None:
    """See above."""
    directory, what = sys.argv[1:]
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    lines = server_lines(text, Path(directory))
    if what == "failure":
        sys.stdout.write("\n".join((failure(lines) or ())[:2]))
    else:
        sys.stdout.write(last_lines(lines, int(what)))


if __name__ == "__main__":
    main()
