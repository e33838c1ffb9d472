"""What `up` would do, or refuse, before it requests chips, looked for by somebody who only reads.

Nothing is changed, no value of a secret is read, and the Hub is not asked. What the caller may not
read is told, and is no failure: `up` may be run by somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuflex.cli.foreseen import Foreseen
from tpuflex.cli.prepare_secrets import check_brought, require_certificate
from tpuflex.cli.shared_weights import require_shared
from tpuflex.cli.steps.doctor_image import stored_image_check
from tpuflex.errors import AccessError, AlreadyExistsError, ApiError, ConflictError, TpuflexError
from tpuflex.operate.doctor.check import Standing
from tpuflex.operate.unseen import reasons

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.prepare import EndpointPreparation

_WARNING = "warning  "


def foresee(
    preparation: EndpointPreparation, *, changes: bool, key_unread: AccessError | None = None
) -> Foreseen:
    """What `up` would do, or refuse, before it requests chips.

    Args:
        preparation: the stack's; it knows the weights that the slice was made for.
        changes: whether the plan changes anything; `up` looks at nothing else where it does not.
        key_unread: why the plan was made without a look at the user's key, if it was.
    """
    looks = _Looks()
    if key_unread is not None:
        looks.unchecked.append(f"the key: {key_unread.message}")
    if changes:
        _look(preparation, looks)
    return Foreseen(tuple(looks.does), tuple(looks.refuses), tuple(reasons(looks.unchecked)))


def _look(preparation: EndpointPreparation, looks: _Looks) -> None:
    cloud = preparation.cloud
    looks.at("the secrets that are yours", lambda: check_brought(cloud))
    looks.at("the TLS certificate", lambda: require_certificate(cloud))
    if not looks.at("the bucket for the weights", lambda: require_shared(cloud)):
        return
    said: list[str] = []
    reader = replace(preparation, say=said.append)

    def weights() -> None:
        found = reader.foretell()
        looks.does += (*map(_plain, found.lines), *filter(None, (found.from_source,)))

    looks.at("the weights", weights)
    looks.unchecked += map(_plain, said)
    if cloud.stack.settings.serving.image_source == "library":
        looks.at("the image", lambda: _image(cloud))


class _Looks:
    """What was seen so far."""

    def __init__(self) -> None:
        self.does: list[str] = []
        self.refuses: list[TpuflexError] = []
        self.unchecked: list[str] = []

    def at(self, what: str, look: Callable[[], object]) -> bool:
        """Whether ``look``, which is about ``what``, raises nothing."""
        try:
            look()
        except (AlreadyExistsError, ConflictError) as error:
            self.refuses.append(error)
        except (AccessError, ApiError) as error:
            self.unchecked.append(f"{what}: {error.message}")
        except TpuflexError as error:
            self.refuses.append(error)
        else:
            return True
        return False


def _image(cloud: Cloud) -> None:
    """Look at the image in the library.

    Raises:
        TpuflexError: `up` would refuse it.
        ApiError: it cannot be told.
    """
    check = stored_image_check(cloud)
    if check.standing is Standing.FAILED:
        raise check.error()
    if check.standing is Standing.UNKNOWN:
        raise ApiError(check.text)


def _plain(line: str) -> str:
    """A line of progress as a sentence."""
    return line.strip().removeprefix(_WARNING)
