"""What `up` would do, or refuse, before it requests chips, looked for by somebody who only reads.

Nothing is changed, no value of a secret is read, and the Hub is not asked. What the caller may not
read is told, and is no failure: `up` may be run by somebody else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuflex.cli.foreseen import Foreseen
from tpuflex.cli.output import for_stack
from tpuflex.cli.prepare_secrets import check_brought, require_certificate
from tpuflex.cli.prepare_weights import check_source
from tpuflex.cli.shared_weights import require_shared
from tpuflex.cli.stack_library import require_programs_key
from tpuflex.cli.steps.hand_over import short_for_both
from tpuflex.errors import AccessError, AlreadyExistsError, ApiError, ConflictError, TpuflexError
from tpuflex.operate.model_source import source_directory
from tpuflex.operate.unseen import reasons

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.prepare import EndpointPreparation
    from tpuflex.engine.events import EnginePlan

_WARNING = "warning  "


def foresee(
    preparation: EndpointPreparation, plan: EnginePlan, *, key_unread: AccessError | None = None
) -> Foreseen:
    """What `up` would do, or refuse, before it requests chips.

    Args:
        preparation: the stack's; it knows the weights that the slice was made for.
        plan: what would change; `up` looks at nothing else where nothing does.
        key_unread: why the plan was made without a look at the user's key, if it was.
    """
    cloud = preparation.cloud
    looks = _Looks(cloud.stack.name)
    if key_unread is not None:
        looks.unchecked.append(f"the key: {key_unread.message}")
    if plan.changes:
        looks.at("the quota for two slices", lambda: looks.tell(short_for_both(cloud, plan)))
        _look(preparation, looks)
    return looks.foreseen()


def _look(preparation: EndpointPreparation, looks: _Looks) -> None:
    """Look at all that `up` looks at."""
    cloud = preparation.cloud
    looks.at("the secrets that are yours", lambda: check_brought(cloud))
    looks.at("the TLS certificate", lambda: require_certificate(cloud))
    if not looks.at("the bucket for the weights", lambda: require_shared(cloud)):
        return
    looks.at("the key for compiled programs", lambda: require_programs_key(cloud))
    said: list[str] = []
    reader = replace(preparation, say=said.append)
    needed: list[str] = []

    def weights() -> None:
        found = reader.foretell()
        needed.extend(filter(None, (found.from_source,)))
        looks.does += (*map(_plain, found.lines), *needed)

    looks.at("the weights", weights)
    looks.unchecked += map(_plain, said)
    if needed:
        looks.at("the source of the weights", lambda: _source(cloud))


class _Looks:
    """What was seen so far."""

    def __init__(self, stack: str) -> None:
        self._stack = stack
        self.does: list[str] = []
        self.refuses: list[TpuflexError] = []
        self.unchecked: list[str] = []

    def foreseen(self) -> Foreseen:
        """All of it, with advice that names the stack: it is shown where no error is reported."""
        for error in self.refuses:
            error.hint = for_stack(error.hint, self._stack)
        return Foreseen(
            tuple(for_stack(text, self._stack) for text in self.does),
            tuple(self.refuses),
            tuple(for_stack(text, self._stack) for text in reasons(self.unchecked)),
        )

    def tell(self, text: str) -> None:
        """Keep ``text``, unless it is empty, as something that `up` does."""
        self.does += filter(None, (text,))

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


def _source(cloud: Cloud) -> None:
    """Look at the source of the weights, as far as it is on this machine.

    Raises:
        TpuflexError: `up` would refuse it.
        ApiError: it cannot be told: `up` may run where it is.
    """
    stack = cloud.stack
    source = str(stack.settings.model.weights.source)
    directory = source_directory(source, stack.project.root)
    if directory is not None and not directory.exists():
        raise ApiError(f"the directory {source} is not on this machine")
    check_source(stack)


def _plain(line: str) -> str:
    """A line of progress as a sentence."""
    return line.strip().removeprefix(_WARNING)
