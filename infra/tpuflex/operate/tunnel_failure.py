"""Why gcloud could not open a tunnel, by what it said: the kind of error, and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tpuflex import gcloud_commands, known_messages
from tpuflex.advice import Advice
from tpuflex.errors import AccessError, ApiError, ConflictError, TpuflexError
from tpuflex.known_messages import Sentence

#: Letters of gcloud's own words that are shown.
_SHOWN = 600


@dataclass(frozen=True, slots=True)
class _Cause:
    """What gcloud says, what that means, and what to do about it.

    The remedy takes the project's id. gcloud tries ten times, 5 s apart; what was said ``hopeless``
    times will be said again (0: it may pass, as a new key that the host does not know yet).
    """

    said: Sentence
    kind: type[TpuflexError]
    meaning: str
    remedy: Callable[[str], Advice | str]
    hopeless: int = 0


def _say(text: Advice | str) -> Callable[[str], Advice | str]:
    return lambda _project: text


#: The first whose words are found decides: ssh's own words come after those of the tunnel.
_CAUSES = (
    _Cause(
        known_messages.IAP_NOT_AUTHORIZED,
        AccessError,
        "IAP refuses: you may not open tunnels to the host",
        lambda project: (
            "You need roles/iap.tunnelResourceAccessor, and the API iap.googleapis.com. An owner "
            f"runs: {gcloud_commands.let_through_iap(project)}"
        ),
        hopeless=1,
    ),
    _Cause(
        known_messages.IAP_NO_BACKEND,
        ConflictError,
        "IAP cannot connect to the host's port 22: no firewall rule lets it in, or no SSH server "
        "listens",
        _say(
            Advice(
                "`{up} --refresh` makes a rule again that somebody has deleted; right after a boot,"
                " wait for a minute."
            )
        ),
        hopeless=2,
    ),
    _Cause(
        known_messages.IAP_NO_HOST,
        ConflictError,
        "IAP does not find the host",
        _say(Advice("`{status}` says whether it runs; a node takes a minute to be known to IAP.")),
        hopeless=2,
    ),
    _Cause(
        known_messages.IAP_LOGIN_WANTED,
        AccessError,
        "IAP refuses: the organisation's access policy does not let you in, or wants a new login",
        lambda _project: f"Run: {gcloud_commands.log_in_gcloud()}; else ask an administrator.",
        hopeless=1,
    ),
    _Cause(
        known_messages.NO_HOST_NAME,
        ConflictError,
        "gcloud does not learn the host's name: its guest attributes cannot be read, or it has "
        "written none",
        _say(
            "Wait until the host has booted. The organisation policy "
            "compute.disableGuestAttributesAccess must not be enforced."
        ),
    ),
    _Cause(
        known_messages.NOT_LOGGED_IN,
        AccessError,
        "gcloud is not logged in (it does not use application default credentials)",
        lambda _project: f"Run: {gcloud_commands.log_in_gcloud()}",
    ),
    _Cause(
        known_messages.API_DISABLED,
        AccessError,
        "an API that the tunnel needs is not enabled: iap.googleapis.com or oslogin.googleapis.com",
        _say("Enable it by the address in gcloud's words, and wait for a minute."),
    ),
    _Cause(
        known_messages.KEY_REFUSED,
        AccessError,
        "the host refuses your SSH key: OS Login does not let you in",
        lambda project: Advice(
            "You need roles/compute.osAdminLogin. An owner runs: {grant}\n"
            "A key with a passphrase has to be in ssh-agent; `{ssh}` asks for it.",
            grant=gcloud_commands.let_log_in(project),
        ),
    ),
    _Cause(
        known_messages.SECOND_FACTOR_WANTED,
        AccessError,
        "OS Login asks for a second factor (enable-oslogin-2fa), which is given at a terminal",
        _say(Advice("Keep `{tunnel}` open in a terminal, and use its port; `{ssh}` asks too.")),
    ),
    _Cause(
        known_messages.GCLOUD_REFUSED,
        AccessError,
        "a permission is missing",
        _say("gcloud's own words name it."),
    ),
    _Cause(
        known_messages.PORT_IN_USE,
        ConflictError,
        "the local port was taken meanwhile",
        _say("Run the command again."),
    ),
)


def tunnel_failure(said: str, project: str, *, after: str = "") -> TpuflexError:
    """The error for a tunnel that did not open.

    Args:
        said: what gcloud wrote.
        project: the project's id.
        after: how long it was waited for, if it has not ended; otherwise empty.
    """
    ended = f"It was not open after {after}." if after else "gcloud ended before it was open."
    return _known_failure(said, project) or ApiError(
        f"No tunnel: {ended}", hint=_hint(Advice("`{ssh}` shows more of what happens."), said)
    )


def command_failure(said: str, project: str) -> TpuflexError:
    """The error for a command that should run on a host, and failed.

    Args:
        said: what it, and gcloud on the way there, wrote.
        project: the project's id.
    """
    return _known_failure(said, project) or ApiError(
        "A command on the host failed.", hint=f"It said: {_words(said) or 'nothing'}"
    )


def _known_failure(said: str, project: str) -> TpuflexError | None:
    for cause in _CAUSES:
        if cause.said.search(said):
            return cause.kind(
                f"No tunnel: {cause.meaning}.", hint=_hint(cause.remedy(project), said)
            )
    return None


def is_final(said: str) -> bool:
    """Whether gcloud, which still tries, has said what it will say again."""
    return any(
        cause.hopeless and len([*cause.said.finditer(said)]) >= cause.hopeless for cause in _CAUSES
    )


def _words(said: str) -> str:
    return " ".join(said.split())[-_SHOWN:]


def _hint(remedy: Advice | str, said: str) -> Advice:
    words = _words(said)
    return Advice.lines(remedy, f"gcloud said: {words}" if words else "")
