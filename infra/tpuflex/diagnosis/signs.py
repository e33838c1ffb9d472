"""Words of logs, and codes of hosts and of Google, by which a class of failure is known. Pure.

What has a code is read by it. What the server on a host writes is read by the host's own table
(:mod:`tpuflex.startup.server_log`), and Google's sentences by :mod:`tpuflex.known_messages`; here
are the classes that these mean, and words that nothing else reads. Anyone with root on a host, or
who can change the model's files, can write to its log: nothing is done because of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from tpuflex import known_messages
from tpuflex.advice import Advice
from tpuflex.known_messages import Sentence
from tpuflex.queued_resource.causes import Cause
from tpuflex.startup.server_log import KINDS, OF_CLIENTS, PREFIX, shortened

#: The source of what a server wrote.
SERVER_LOG = "server log"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of evidence.

    Attributes:
        source: where it is from, such as ``host log``.
        text: the line.
    """

    source: str
    text: str

    def to_json(self) -> dict[str, str]:
        """It under ``lines`` of the document that ``tpuflex diagnose --json`` prints."""
        return {"source": self.source, "text": self.text}


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code, or words, mean.

    Attributes:
        slug: the class of failure; empty for none.
        remedy: what to do instead of what the class says; or None.
    """

    slug: str
    remedy: Advice | None = None


_SHM = Advice("raise tpuflex:serving.shm_size in the stack file, then `{up}`")
#: Kinds of failure that the host tells apart by the words of its server.
SERVER_KINDS: Mapping[str, Meaning] = {
    "arguments": Meaning("arguments"),
    "tokenizer": Meaning("tokenizer"),
    "weights": Meaning("weights"),
    "shared memory": Meaning("disk", _SHM),
    "compilation": Meaning("compile-failure"),
    "memory": Meaning("hbm-out-of-memory"),
    "configuration": Meaning("arguments"),
    "device": Meaning("device"),
}
_NEW_HOST = Advice("`{reboot}` boots it again; `{up} --new-host` asks for another")
_REPORT = Advice("report it, with what `{diagnose} --bundle FILE.tar.gz` writes")
#: Codes of a boot's failure (docs/how-to/troubleshooting.md); of a family of them, the beginning.
HOST_CODES: Mapping[str, Meaning] = {
    "capacity": Meaning("disk"),
    "chat-template": Meaning(
        "arguments",
        Advice("change tpuflex:serving.flags.chat_template in the stack file, then `{up}`"),
    ),
    "completion": Meaning("", _REPORT),
    "config": Meaning("", Advice("`{up}` writes the configuration again; if it stays, report it")),
    "container": Meaning("docker"),
    "container-died": Meaning("crash-loop"),
    "directory": Meaning("", _NEW_HOST),
    "docker": Meaning("docker"),
    "health": Meaning("boot-stuck"),
    "image": Meaning("image"),
    "image-denied": Meaning("image"),
    "image-unknown": Meaning("image"),
    "isolation": Meaning(
        "device",
        Advice("write tpuflex:serving.isolation as the line says, then `{up}`"),
    ),
    "memory": Meaning("", _NEW_HOST),
    "metadata": Meaning("", _NEW_HOST),
    "multi-host": Meaning(
        "arguments",
        Advice("take an accelerator type of one host (`tpuflex recommend`), then `{up}`"),
    ),
    "secret-403": Meaning("permission"),
    "secret-": Meaning("secrets"),
    "server-open": Meaning("", _REPORT),
    "server-version": Meaning("image"),
    "tls": Meaning("secrets"),
    "warmup": Meaning("hbm-out-of-memory"),
    "weights-": Meaning("weights"),
    "phase-": Meaning("", _REPORT),
}
#: Why Google gave a request up.
CAUSES: Mapping[Cause, Meaning] = {
    Cause.STOCKOUT: Meaning("stock-out"),
    Cause.EXPIRED: Meaning("stock-out"),
    Cause.INTERNAL: Meaning("stock-out"),
    Cause.QUOTA: Meaning("quota"),
    Cause.PERMISSION: Meaning("permission"),
    Cause.POLICY: Meaning("permission"),
    Cause.BILLING: Meaning("permission"),
    Cause.UNSUPPORTED: Meaning(
        "arguments",
        Advice(
            "choose another zone, accelerator type or runtime version (`tpuflex zones`), then"
            " `{up}`"
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Sign:
    """Words by which a class is known.

    Attributes:
        slug: the class.
        words: what finds them in a line.
        times: how many lines have to have them; a single one may be harmless.
    """

    slug: str
    words: re.Pattern[str] | Sentence
    times: int = 1


def _sign(slug: str, words: str, times: int = 1) -> Sign:
    return Sign(slug, re.compile(words), times)


#: In any log. The first that a line has counts.
SIGNS = (
    Sign("stock-out", known_messages.OUT_OF_CAPACITY),
    _sign("secure-boot", r"constraints/compute\.requireShieldedVm"),
    _sign(
        "guest-attributes",
        r"disableGuestAttributesAccess|guest attribute \S*\s?could not be written \(HTTP 403\)"
        r"|403 Forbidden.*/guest-attributes/",
    ),
    Sign("api-not-enabled", known_messages.API_DISABLED),
    _sign(
        "gated-model",
        r"GatedRepoError|[Cc]annot access gated repo|Access to model \S+ is restricted"
        r"|is gated\. You must be authenticated|Repository Not Found for url: https://huggingface",
    ),
    _sign(
        "quota",
        r"[Qq]uota (?:limit |metric )?'[\w /]+'.*(?:exhausted|exceeded)|QUOTA_EXCEEDED",
    ),
    _sign(
        "permission",
        r"PERMISSION_DENIED|[Pp]ermission '[\w.]+' denied|Required '[\w.]+' permission"
        r"|does not have (?:[\w.]+ )?(?:access|permission)\b|AccessDeniedException: 403",
    ),
    _sign(
        "image",
        r"manifest unknown|pull access denied|toomanyrequests|repository does not exist",
    ),
    _sign("disk", r"[Nn]o space left on device|\bENOSPC\b|[Dd]isk quota exceeded"),
    _sign(
        "docker",
        r"Cannot connect to the Docker daemon|Error response from daemon|OCI runtime create failed",
    ),
    _sign("slice-lost", r"watch: draining\b.* the slice is to be deleted"),
    _sign("end-of-run", r"watch: draining\b.* the run ends at"),
    _sign(
        "frozen-engine",
        r"watch: (?:degraded|failed)\b.*(?:no token came|has not answered for|no completion came)"
        r"|RPC call to \w+ timed out",
    ),
    # One is usual while a program is compiled.
    _sign("frozen-engine", r"No available shared memory broadcast block found in \d+ seconds", 3),
    _sign(
        "crash-loop",
        # A single death is none: docker starts the server again.
        r"watch: failed\b.*(?:died with status|keeps dying)|CrashLoopBackOff"
        r"|EngineDeadError|Engine core initialization failed|OOMKilled|exited with code 137",
    ),
)
#: What a host's watch writes once its server serves, for the first time or again.
_SERVES = re.compile(r"^\S+Z watch: serving\b")
#: What the watch says of a server that is being started again, by docker or by itself.
_STARTED_AGAIN = re.compile(r"died with status|started (?:once more|again)")
#: How the startup script ends in its log (startup/02-report.sh).
_FAILED = re.compile(r"^\S+Z error ([\w-]+): ")
#: What a line of the host's log, or its error, has before the words of its server.
_BEGIN = re.compile(
    r"^(?:\S+Z )?(?:[a-z-]+: )?(?:the server died with status \d+"
    r"(?: of its [\w ]+ \([^)]*\))?(?: and is started once more)?: )?"
)
_KIND_WORDS = tuple((kind, re.compile(words)) for kind, words, _ in KINDS)


@dataclass(frozen=True, slots=True)
class Found:
    """A class that was found in lines.

    Attributes:
        meaning: the class, and its remedy.
        lines: those that show it, in their order.
    """

    meaning: Meaning
    lines: tuple[Line, ...]


def meaning_of_code(error: str) -> Meaning | None:
    """What the code that a host's ``error`` begins with means; None for one that is not known."""
    code = error.partition(":")[0].strip()
    if code in HOST_CODES:
        return HOST_CODES[code]
    families = {start: each for start, each in HOST_CODES.items() if start.endswith("-")}
    return next((each for start, each in families.items() if code.startswith(start)), None)


def meaning_of_refusal(text: str, otherwise: str) -> Meaning:
    """What Google's ``text`` about a refusal means: the class ``otherwise`` unless its words are
    those of a finer one."""
    sign = _sign_in(text)
    return Meaning(otherwise if sign is None else sign.slug)


def found_in(lines: Iterable[Line]) -> tuple[Found, ...]:
    """The classes that the words of ``lines`` are of, each once, in order of its first line."""
    by_meaning: dict[Meaning, list[Line]] = {}
    repeated: dict[Sign, list[Line]] = {}
    for line in lines:
        for said in _read(line):
            if isinstance(said, Sign) and said.times > 1:
                repeated.setdefault(said, []).append(line)
            else:
                meaning = Meaning(said.slug) if isinstance(said, Sign) else said
                by_meaning.setdefault(meaning, []).append(line)
    for sign, alike in repeated.items():
        if len(alike) >= sign.times:
            by_meaning.setdefault(Meaning(sign.slug), []).extend(alike)
    return tuple(Found(meaning, tuple(alike)) for meaning, alike in by_meaning.items())


def since_it_served(lines: Iterable[Line]) -> tuple[Line, ...]:
    """``lines`` without those that came, in the same source, before the last one that says that
    the server serves: what they show is over."""
    kept: dict[str, list[Line]] = {}
    for line in lines:
        here = kept.setdefault(line.source, [])
        if _SERVES.search(line.text):
            here.clear()
        here.append(line)
    return tuple(chain.from_iterable(kept.values()))


def says_started_again(reason: str) -> bool:
    """Whether, by the ``reason`` of a host that is degraded, its server is being started again."""
    return _STARTED_AGAIN.search(reason.partition("\n")[0]) is not None


def words_of(line: str) -> str:
    """What a line says, without what vLLM and the startup script begin it with."""
    return PREFIX.sub("", _BEGIN.sub("", line.removeprefix("  | ")))


def _sign_in(text: str) -> Sign | None:
    return next((sign for sign in SIGNS if sign.words.search(text)), None)


def _read(line: Line) -> Iterator[Meaning | Sign]:
    """What one line says, if anything."""
    if OF_CLIENTS.search(line.text):
        return
    text = shortened(line.text)
    if (failed := _FAILED.match(text)) and (meaning := meaning_of_code(failed[1])) is not None:
        if meaning.slug:
            yield meaning
        return
    words = words_of(text)
    for kind, pattern in _KIND_WORDS:
        # What is full is the disk, unless the server itself says so.
        if (kind != "shared memory" or line.source == SERVER_LOG) and pattern.search(words):
            yield SERVER_KINDS[kind]
            return
    if (sign := _sign_in(text)) is not None:
        yield sign
