"""What the Hub's refusals mean, each with who must act next.

``X-Error-Code`` distinguishes them; huggingface_hub makes a class of each
(https://huggingface.co/docs/huggingface_hub/package_reference/utilities#huggingface_hub.errors).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.advice import Advice
from tpuflex.errors import (
    AccessError,
    ApiError,
    Finding,
    NotFoundError,
    SettingsError,
    TpuflexError,
    UnauthenticatedError,
    WeightsError,
)
from tpuflex.settings.weights_source import SOURCE_KEY

if TYPE_CHECKING:
    import httpx2

#: The Hub counts requests in windows of five minutes
#: (https://huggingface.co/docs/hub/rate-limits); no wait is longer.
LONGEST_WAIT = 300.0
_SAID = 300

_TOKEN = Advice(
    "Set HF_TOKEN to a token that may read it (https://huggingface.co/settings/tokens), or keep one"
    " in Secret Manager: tpuflex:secrets.hf_token_version: 1 in the stack file, then"
    " `{secrets_put} hf-token`."
)

_NOT_THE_HUB = "Look at HF_ENDPOINT and at proxies: the Hub does not answer so."


def translated(error: Exception, where: str, repository: str, *, with_token: bool) -> TpuflexError:
    """What ``error``, raised by huggingface_hub, means.

    Args:
        error: what was raised.
        where: what was asked for, such as ``hf://OWNER/NAME@REVISION``.
        repository: OWNER/NAME.
        with_token: whether a token was sent.
    """
    from huggingface_hub import errors

    page = f"https://huggingface.co/{repository}"
    match error:
        case errors.GatedRepoError() if with_token:
            return AccessError(
                f"{where} is gated, and the Hub does not give it to the account of this token",
                hint=f"Accept the terms on {page}; the owner may have to agree, too.",
            )
        case errors.GatedRepoError():
            return AccessError(
                f"{where} is gated, and there is no token for the Hub",
                hint=Advice("Accept the terms on {page}. {token}", page=page, token=_TOKEN),
            )
        case errors.RepositoryNotFoundError() if with_token:
            return NotFoundError(
                f"the Hub has no model {repository} that the account of this token may see",
                hint=f"Check the name in {SOURCE_KEY}.",
            )
        case errors.RepositoryNotFoundError():
            return NotFoundError(
                f"the Hub has no model {repository}, or it is private",
                hint=Advice(
                    "Check the name in {key}. If it is private: {token}",
                    key=SOURCE_KEY,
                    token=_TOKEN,
                ),
            )
        case errors.RevisionNotFoundError():
            return NotFoundError(
                f"{where}: the model has no such revision, or not any more",
                hint=f"Choose a commit from {page}/commits/main and write it to {SOURCE_KEY}.",
            )
        case errors.RemoteEntryNotFoundError():
            return WeightsError(
                f"{where}: a file that the Hub lists is not there", hint="Run it again."
            )
        case errors.DisabledRepoError():
            return AccessError(f"{where} was disabled by the Hub", hint=f"{page} says why.")
        case errors.OfflineModeIsEnabled():
            return ApiError(f"{where} was not asked for: HF_HUB_OFFLINE is set", hint="Unset it.")
        case errors.HFValidationError():
            finding = Finding(SOURCE_KEY, f"{repository!r} is no name of a model", "Correct it.")
            return SettingsError("the stack file", (finding,))
        case errors.HfHubHTTPError():
            return _by_status(error.response, where, with_token=with_token)
        case _:
            return ApiError(
                f"{where} cannot be fetched: the Hub cannot be reached ({type(error).__name__})",
                hint="Check the network and HF_ENDPOINT, then run it again: it goes on where it"
                " stopped.",
            )


def compressed(host: str, encoding: str) -> WeightsError:
    """The error for an answer that is compressed, though that was not asked for."""
    return WeightsError(
        f"{host} answers compressed ({printable(encoding[:40])}), which was not asked for",
        hint=_NOT_THE_HUB,
    )


def too_large_error(host: str, most: int) -> WeightsError:
    """The error for an answer of more than ``most`` bytes."""
    return WeightsError(f"{host} answers with more than {most} bytes", hint=_NOT_THE_HUB)


def cause_of(error: Exception) -> Exception:
    """What ``error`` comes from: a Hub that cannot be asked is told as a file that is not in
    huggingface_hub's cache."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    cause = error.__cause__
    known = isinstance(error, LocalEntryNotFoundError) and isinstance(cause, Exception)
    return cause if known and cause is not None else error  # type: ignore[return-value]


def retry_after(response: httpx2.Response) -> float | None:
    """How long the Hub asks to wait before the next request, in seconds; None if it does not.

    https://huggingface.co/docs/hub/rate-limits#rate-limit-headers
    """
    from huggingface_hub.utils import parse_ratelimit_headers

    limit = parse_ratelimit_headers(response.headers)
    if limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    asked = response.headers.get("Retry-After", "")
    return float(asked) if asked.isascii() and asked.isdigit() else None


def limited(error: Exception) -> bool:
    """Whether the Hub limits how many requests are made."""
    from huggingface_hub.errors import HfHubHTTPError

    return isinstance(error, HfHubHTTPError) and error.response.status_code == 429


def passing(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(error, HfHubHTTPError):
        status = error.response.status_code
        return status in (408, 429) or status >= 500
    return isinstance(error, httpx2.TransportError)


def _by_status(response: httpx2.Response, where: str, *, with_token: bool) -> TpuflexError:
    status = response.status_code
    said = printable(response.headers.get("X-Error-Message", "")[:_SAID])
    text = f": {said}" if said else ""
    if status == 401:
        return UnauthenticatedError(f"{where}: the Hub refuses the token{text}", hint=_TOKEN)
    if status == 403:
        return AccessError(f"{where}: the Hub forbids it{text}", hint=_TOKEN)
    if status == 429:
        wait = retry_after(response)
        more = "" if with_token else " With a token (HF_TOKEN) the limit is higher."
        when = f"in {wait:.0f} s" if wait else "in five minutes"
        return ApiError(
            f"{where}: the Hub limits how many requests you make, and is still doing so",
            status=status,
            retry_after=wait or 0.0,
            hint=f"Run it again {when}: it goes on where it stopped.{more}",
        )
    return ApiError(
        f"{where}: the Hub answered with {status}{text}", status=status, hint="Run it again later."
    )
