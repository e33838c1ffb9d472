"""What Google's storage library raises, as errors of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import requests

from tpuflex import known_messages
from tpuflex.advice import Advice
from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError, WeightsError
from tpuflex.google.rpc_errors import requester_is_to_pay, requester_pays, retained
from tpuflex.queued_resource.causes import Cause, remedy, unpaid

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]


_PUSH = Advice("Run `{weights_push}`, which makes it.")


@contextmanager
def translated_errors(
    bucket: str,
    *,
    project: str = "PROJECT",
    missing: Advice | str = _PUSH,
    forbidden: str = "Writing weights needs the role Storage Object Admin on the bucket.",
) -> Iterator[None]:
    """Turn what Google's library raises into our own errors, naming ``bucket``.

    Args:
        bucket: its name.
        project: whose it is.
        missing: what to do if it does not exist.
        forbidden: what to do if the caller may not do this.
    """
    from google.api_core import exceptions

    where = f"gs://{bucket}"
    try:
        yield
    except exceptions.NotFound as error:
        raise NotFoundError(f"{where} does not exist", hint=missing) from error
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        text = str(error.message)
        brief = f"{where}: {known_messages.STORAGE_CALL.removed(text)}"
        if known_messages.RETAINED.search(text):
            raise retained(where, brief) from error
        raise AccessError(
            f"{where}: {text}",
            brief=brief,
            hint=remedy(Cause.BILLING, project=project) if unpaid(text) else forbidden,
        ) from error
    except exceptions.PreconditionFailed as error:
        raise ConflictError(
            f"{where}: somebody else is writing the same weights",
            status=412,
            hint="Wait until they are done, then run it again.",
        ) from error
    except exceptions.GoogleAPICallError as error:
        status = int(error.code or 0)
        if requester_is_to_pay(status, str(error.message)):
            raise requester_pays(where) from error
        brief = f"{where}: {known_messages.STORAGE_CALL.removed(str(error.message))}"
        raise ApiError(f"{where}: {error.message}", brief=brief, status=status) from error
    except (requests.RequestException, exceptions.RetryError) as error:
        raise ApiError(f"{where} cannot be reached ({type(error).__name__})") from error
    except OSError as error:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error


def translated(bucket: Bucket) -> AbstractContextManager[None]:
    """The same for what is asked of ``bucket`` by its own client."""
    return translated_errors(str(bucket.name), project=str(bucket.client.project or "PROJECT"))
