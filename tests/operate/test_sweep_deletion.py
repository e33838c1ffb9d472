"""What a sweep deletes: asked for once, awaited, and each for itself."""

from __future__ import annotations

from tests.operate.marked_things import (
    FIRST,
    OTHER,
    ZONE,
    Api,
    clients,
    labelled,
    maker,
    node,
    request,
)
from tests.provider.fakes import FakeTime
from tpuflex.errors import ApiError, ConflictError, NotFoundError
from tpuflex.inventory.cloud_resource import CloudResource
from tpuflex.operate.sweep import Disposition, Leftover
from tpuflex.operate.sweep_deletion import delete


def orphan(item: CloudResource) -> Leftover:
    return Leftover(item, maker(), Disposition.ORPHAN, "no state knows it")


def deletion(api: Api, *items: CloudResource) -> list[str]:
    """What is wrong with each after its deletion; empty when it is gone."""
    found = delete(
        [orphan(item) for item in items],
        clients(tpu=api),
        say=lambda _: None,
        timing=FakeTime().timing(),
    )
    return [one.problem for one in found]


PATH = f"/v2alpha1/{ZONE}/queuedResources/{FIRST}"


class TestDeletion:
    def test_waits_until_it_is_gone(self) -> None:
        """A deletion counts when the thing is gone, and is asked for once."""
        api = Api({f"GET {PATH}": [labelled(FIRST), labelled(FIRST), NotFoundError("gone")]})

        assert deletion(api, request()) == [""]
        assert api.calls.count(f"DELETE {PATH}") == 1

    def test_asks_again_while_it_cannot_be_deleted(self) -> None:
        """PROVISIONING cannot be deleted: it is asked for again."""
        busy = ConflictError("being provisioned", status=400)
        api = Api(
            {
                f"GET {PATH}": [labelled(FIRST)] * 3 + [NotFoundError("gone")],
                f"DELETE {PATH}": [busy, {}],
            }
        )

        assert deletion(api, request()) == [""]
        assert api.calls.count(f"DELETE {PATH}") == 2

    def test_another_marker_by_now(self) -> None:
        """What carries another marker by now is not touched."""
        api = Api({f"GET {PATH}": labelled(FIRST, OTHER)})

        (problem,) = deletion(api, request())

        assert "not ours any more" in problem
        assert not [call for call in api.calls if call.startswith("DELETE")]

    def test_one_failure_does_not_stop_the_others(self) -> None:
        """Each thing is tried; what is still there in the end is said."""
        api = Api(
            {
                f"GET {PATH}": labelled(FIRST),
                f"DELETE {PATH}": ApiError("no", status=500),
                f"GET /v2alpha1/{ZONE}/nodes/{FIRST}": NotFoundError("gone"),
            }
        )

        assert deletion(api, request(), node()) == ["no", ""]

    def test_stuck(self) -> None:
        """Patience ends, and what is left is not called gone."""
        assert deletion(Api({f"GET {PATH}": labelled(FIRST)}), request()) == ["it is still there"]
