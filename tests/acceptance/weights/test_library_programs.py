"""What the hosts of an endpoint may do with their programs in the library, with the real engine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.killed import stack_run
from tests.engine.embedded import Embedded
from tests.engine.libraries import (
    BUCKET,
    MODEL,
    PROJECT,
    call,
    command,
    library_down,
    library_status,
    library_up,
    token_of_hosts,
    write_stack,
)
from tpuflex.cli.down.run import run_down
from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.naming import programs_key
from tpuflex.weights.library import require_programs_key

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]


def test_programs_are_kept_over_a_teardown(embedded: Embedded) -> None:
    """Where bindings decide, an endpoint's hosts add compiled programs to their own place in the
    library, read them, and read what they know them by; they replace and delete none, and reach no
    other endpoint's. `down` takes these rights away and leaves the programs; a library of before
    has nothing to know them by, which `up` says before it asks for chips."""
    write_stack(embedded, "one", MODEL, {"manifest_sha256": "5a" * 32})
    library_up(embedded)
    key = programs_key(PROJECT)
    run = stack_run(embedded.root, embedded.engine, embedded.environ, "one")
    run.up()
    place = f"compile-cache/{own_place(run.resources())}"
    embedded.cloud.cloud.strictness.change({"iam": {"enforced": True}})
    token = token_of_hosts(embedded, run.resources())
    objects = f"storage/v1/b/{BUCKET}/o"

    def add(name: str) -> int:
        path = f"upload/{objects}?uploadType=media&name={name.replace('/', '%2F')}"
        return call(embedded, "POST", path, token=token, data=b"programs").status_code

    added = [add(f"{place}/k/a.tar"), add(f"{place}/k/a.tar"), add("compile-cache/other/k/a.tar")]
    own = f"{objects}/{place.replace('/', '%2F')}%2Fk%2Fa.tar"
    read = call(embedded, "GET", f"{own}?alt=media", token=token).content
    deleted = call(embedded, "DELETE", own, token=token).status_code
    listed = call(embedded, "GET", f"{objects}?prefix={place}", token=token).json()["items"]
    known = call(embedded, "GET", f"v1/{key}/versions/latest:access", token=token).json()
    embedded.cloud.cloud.strictness.change({"iam": {"enforced": False}})
    with pytest.raises(ConflictError, match="Endpoints may read from the library"):
        library_down(embedded)
    run_down(*command(embedded, "one"), dry_run=False)
    left = library_status(embedded)["buckets"][0]
    kept = call(embedded, "GET", f"{own}?alt=media").content
    secret = call(embedded, "GET", f"v1/{key}:getIamPolicy").json()
    call(embedded, "DELETE", f"v1/{key}").raise_for_status()
    with pytest.raises(NotFoundError, match="has no key for compiled programs"):
        require_programs_key(command(embedded, "one")[1])
    library_up(embedded)
    require_programs_key(command(embedded, "one")[1])

    assert added == [200, 403, 403]
    assert read == kept == b"programs"
    assert deleted == 403
    assert [each["name"] for each in listed] == [f"{place}/k/a.tar"]
    assert known["payload"]["data"]
    assert left["programs_bytes"] == len(kept)
    assert [each for each in left["readers"] if each["endpoint"]] == []
    assert not secret.get("bindings")
    assert embedded.remaining() == ["secrets", "versions", "buckets", "objects"]


def test_an_endpoint_outlives_the_library_that_kept_its_programs(embedded: Embedded) -> None:
    """A library that is deleted under its endpoint takes its key along; the endpoint's `down` is
    not kept from ending by rights that are gone with it."""
    write_stack(embedded, "one", MODEL, {"manifest_sha256": "5a" * 32})
    library_up(embedded)
    stack_run(embedded.root, embedded.engine, embedded.environ, "one").up()
    library_down(embedded, with_readers=True)
    run_down(*command(embedded, "one"), dry_run=False)

    assert embedded.remaining() == []


def own_place(resources: Any) -> str:
    """The last part of the place of a stack's compiled programs, as its hosts' rights have it."""
    (condition,) = (
        each["inputs"]["condition"]["expression"]
        for each in resources
        if each.get("inputs", {}).get("role") == "roles/storage.objectCreator"
    )
    return str(condition.rpartition("/compile-cache/")[2].removesuffix("/')"))
