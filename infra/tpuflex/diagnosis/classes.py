"""The classes of failure: what each is, what usually causes it, and what to type next. Pure data.

Each has a page in docs/runbooks, named by its slug.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpuflex.advice import Advice
from tpuflex.errors import (
    AccessError,
    BootError,
    CapacityError,
    QuotaError,
    ServiceDisabledError,
    SettingsError,
    TpuflexError,
    WeightsError,
)

_MENDED = Advice("then `{reboot}` boots this host again, on the same capacity")
_CHANGED = Advice("then `{up}`")


@dataclass(frozen=True, slots=True)
class FailureClass:
    """A class of failure.

    Attributes:
        slug: its name, and that of its page.
        title: what it is, in a few words.
        cause: what usually causes it, in a sentence.
        remedy: what to do next, with the command.
        kind: the kind of error, which gives the exit code.
        symptom: whether another class may be its cause.
    """

    slug: str
    title: str
    cause: str
    remedy: Advice
    kind: type[TpuflexError] = BootError
    symptom: bool = False

    @property
    def page(self) -> str:
        """Its page of the manual, as `tpuflex docs` takes it."""
        return f"runbooks/{self.slug}"


#: All of them, causes before their effects.
_ROWS = (
    FailureClass(
        "api-not-enabled",
        "an API is not enabled in the project",
        "The project is new, or somebody turned the API off.",
        Advice("`{doctor}` names each API that is off, with the command that enables it"),
        ServiceDisabledError,
    ),
    FailureClass(
        "permission",
        "Google refuses: permission, organization policy or billing",
        "An account lacks a role, an organization policy forbids it, or the project has no open"
        " billing account.",
        Advice("`{doctor}` names what is missing, with the command that grants it"),
        AccessError,
    ),
    FailureClass(
        "secure-boot",
        "Secure Boot is required, or keeps the host from booting",
        "The organization policy compute.requireShieldedVm requires it; or it is on, and the"
        " runtime version loads unsigned drivers.",
        Advice("set tpuflex:slice.secure_boot as the policy requires, then `{up}`"),
        AccessError,
    ),
    FailureClass(
        "guest-attributes",
        "the host cannot report",
        "The organization policy compute.disableGuestAttributesAccess is enforced: even a host"
        " that serves cannot say so.",
        Advice("have the policy lifted for the project as `{doctor}` shows, then `{up}`"),
        AccessError,
    ),
    FailureClass(
        "quota",
        "a quota is missing or used up",
        "Flex-start uses the zone's preemptible TPU quota, and so do ended and failed requests"
        " until they are deleted.",
        Advice("`{sweep}` lists leftovers that use it; `{doctor}` shows the quota"),
        QuotaError,
    ),
    FailureClass(
        "stock-out",
        "Google has no capacity there now",
        "The zone is sold out, or the request was not granted while it was valid.",
        Advice(
            "`{up}` requests capacity again; more zones in tpuflex:slice.zones, or a smaller slice,"
            " make it likelier"
        ),
        CapacityError,
    ),
    FailureClass(
        "gated-model",
        "the model is gated, and no token may read it",
        "The account of the token has not accepted the model's licence, or there is no token.",
        Advice(
            "accept the licence on the model's page, set HF_TOKEN to a token of that account, then"
            " `{up}`"
        ),
        AccessError,
    ),
    FailureClass(
        "end-of-run",
        "the run is over, or about to end",
        "A Flex-start run ends after tpuflex:slice.max_run_duration; Google takes the hosts back.",
        Advice(
            "for a new run: `{up} --new-host`; to start the next one before this one ends:"
            " tpuflex:slice.renew_before"
        ),
    ),
    FailureClass(
        "slice-lost",
        "the slice was lost, or is being deleted",
        "Somebody deleted it outside of tpuflex, or Google took it.",
        Advice("`{events}` shows who did what; `{up}` requests capacity again"),
    ),
    FailureClass(
        "docker",
        "docker does not work on the host, or cannot start the container",
        "The runtime version has no docker and none can be installed, or its daemon fails.",
        Advice(
            "choose a tpuflex:slice.runtime_version with docker, or set tpuflex:network.egress:"
            " internet, then `{up}`"
        ),
    ),
    FailureClass(
        "image",
        "the server's image cannot be pulled, or is refused",
        "The registry has no such image, refuses the host or was not reached; or the version has"
        " known security holes.",
        Advice(
            "`{doctor}` checks the image; write another one to tpuflex:serving.image, {then}",
            then=_CHANGED,
        ),
    ),
    FailureClass(
        "secrets",
        "a secret of the endpoint cannot be used",
        "A version of it is disabled or destroyed, or its value is not the one that the host read"
        " when it booted.",
        Advice(
            "`{secrets_ls}` shows the versions. For one that is destroyed: put a new one, raise"
            " tpuflex:secrets.*_version in the stack file, then `{up}`. For one that is disabled:"
            " enable it again, then `{restart}`"
        ),
        AccessError,
    ),
    FailureClass(
        "disk",
        "a disk, or memory used as a disk, is full",
        "Image and weights need more space than the host has, or something else fills it.",
        Advice("take more chips or a smaller model (`tpuflex memory`), then `{up}`"),
    ),
    FailureClass(
        "weights",
        "the model's weights are missing, damaged or of another model",
        "A push was interrupted, files were changed since, or files are truncated.",
        Advice(
            "`{weights_verify}` names the files; `{weights_push} --again` sends them again, {then}",
            then=_MENDED,
        ),
        WeightsError,
    ),
    FailureClass(
        "tokenizer",
        "the model's tokenizer cannot be loaded",
        "Its files are missing from the weights, or of a version that the server cannot read.",
        Advice("push the model with its tokenizer: `{weights_push}`, {then}", then=_MENDED),
        WeightsError,
    ),
    FailureClass(
        "arguments",
        "a setting is rejected",
        "A flag or the configuration of the server is wrong, or the zone does not offer this"
        " accelerator or runtime version.",
        Advice(
            "change tpuflex:serving.flags, or what the line names, in the stack file, {then}",
            then=_CHANGED,
        ),
        SettingsError,
    ),
    FailureClass(
        "compile-failure",
        "the model cannot be compiled for the chip",
        "A kernel does not support the model's shapes, or needs more of the chip's inner memory"
        " than it has.",
        Advice(
            "lower max_model_len or max_num_batched_tokens in tpuflex:serving.flags, or choose"
            " another image, {then}",
            then=_CHANGED,
        ),
    ),
    FailureClass(
        "hbm-out-of-memory",
        "the model and its KV cache do not fit the chips' memory",
        "Weights, context and concurrency together need more HBM than the slice has.",
        Advice(
            "`tpuflex memory` shows how much each part needs: lower max_model_len or max_num_seqs,"
            " or take more chips, {then}",
            then=_CHANGED,
        ),
    ),
    FailureClass(
        "device",
        "the server cannot open the chips",
        "The container may not open the device files, or another process holds the chip.",
        Advice(
            "`{reboot}` frees a chip that is held; if you trust the model's files,"
            " tpuflex:serving.isolation: none gives the server all rights"
        ),
    ),
    FailureClass(
        "frozen-engine",
        "the engine generates no tokens, though its server answers",
        "A step hangs in the engine or on the chip; /health does not notice.",
        Advice(
            "the host's watch starts the server again within minutes; `{restart}` does it now, and"
            " `{reboot}` boots the machine"
        ),
        symptom=True,
    ),
    FailureClass(
        "crash-loop",
        "the server dies again and again",
        "It ends with an error of its own, or the machine runs out of memory; its last lines say"
        " which.",
        Advice("`{logs} --server` shows its last lines; mend the cause, {then}", then=_MENDED),
        symptom=True,
    ),
    FailureClass(
        "boot-stuck",
        "the boot takes too long in one phase",
        "A download is slow, the first compilation takes long, or the host is cut off from Google's"
        " APIs.",
        Advice("`{logs}` shows its progress; `{up}` goes on waiting, `{reboot}` boots it again"),
        symptom=True,
    ),
    FailureClass(
        "target-down",
        "the host was READY, and its server does not answer",
        "The server ended or the machine is gone.",
        Advice("`{restart}` starts the server again; if that does not help, `{reboot}`"),
        symptom=True,
    ),
)

#: By slug, in that order.
CLASSES: Mapping[str, FailureClass] = {row.slug: row for row in _ROWS}
#: Where no class fits.
UNKNOWN = FailureClass(
    "unknown",
    "no class of failure fits",
    "Nothing that was read shows a known failure.",
    Advice("`{logs}` and `{events}` show all there is; `{diagnose} --bundle FILE.tar.gz` packs it"),
    TpuflexError,
)
