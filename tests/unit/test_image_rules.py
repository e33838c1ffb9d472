"""Rules about the serving image: whose it is, which vLLM is in it, and its security floor."""

from __future__ import annotations

from typing import Any

import pytest

from embedded_cloud.machines.images import embedded_image
from tests.unit.stack_sections import (
    CPU_DIGEST,
    CPU_IMAGE,
    PIN,
    TPU_DIGEST,
    findings,
    sections,
)
from tpuflex.boot.config import boot_config
from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import CatalogRows
from tpuflex.catalog.vllm_version import ADVISORIES, SECURITY_FLOOR
from tpuflex.naming import Names
from tpuflex.settings.load import parse
from tpuflex.settings.rules import warnings
from tpuflex.startup.served import release

DIGEST = "sha256:" + "ab" * 32


def test_an_unknown_image_is_warned_about() -> None:
    """Which vLLM is in it is known when its host has asked; the host's floor is named."""
    image = f"us-east5-docker.pkg.dev/acme-serving/dockerhub/vllm/vllm-tpu@{DIGEST}"
    found = warnings(parse(sections({"serving.image": image}), "test"))
    (warning,) = (item for item in found if item.key == "tpuflex:serving.image")

    assert "0.23.1" in warning.remedy
    assert "catalog.yaml" in warning.remedy


def test_an_image_of_another_project_is_warned_about() -> None:
    """Tpuflex grants the reader's role in the stack's own project only, and says so."""
    image = f"us-east5-docker.pkg.dev/other-project/dockerhub/vllm/vllm-tpu@{TPU_DIGEST}"
    found = warnings(parse(sections({"serving.image": image}), "test"))
    (warning,) = (item for item in found if item.key == "tpuflex:serving.image")

    assert "in the project other-project, where tpuflex grants nothing" in str(warning)
    assert "roles/artifactregistry.reader" in warning.remedy


def image_row(version: str, floor: str | None = None) -> dict[str, Any]:
    """A catalog with a row about the image of the test's stack."""
    row: dict[str, object] = {
        "repository": "vllm/vllm-tpu",
        "digest": TPU_DIGEST,
        "vllm_version": version,
        "source": {"where": "a test", "date": "2026-11-22"},
    }
    return {"catalog": {"images": [row | ({"security_floor": floor} if floor else {})]}}


@pytest.mark.parametrize(
    ("version", "floor", "refused"),
    [
        ("0.23.0", None, True),
        ("0.23.1rc1", None, True),
        ("0.23.1", None, False),
        ("0.30.0", "0.31.0", True),
    ],
)
def test_a_known_image_below_its_floor_is_refused(
    version: str, floor: str | None, refused: bool
) -> None:
    """Its host would stop it; that is known before chips cost anything."""
    found = findings(sections(image_row(version, floor)))

    assert [item.key for item in found] == (["tpuflex:serving.image"] if refused else [])


@pytest.mark.parametrize("digest", [TPU_DIGEST, f"sha256:{'d' * 64}"])
@pytest.mark.parametrize("floor", ["0", "0.11.0", "0.23"])
def test_a_row_cannot_lower_the_floor(digest: str, floor: str) -> None:
    """A stack file or catalog.yaml that came with a checkout lets no server with known holes
    serve: the floor of any image is at least ours."""
    changes = image_row("0.31.0", floor)
    changes["catalog"]["images"][0]["digest"] = digest

    (finding,) = findings(sections(changes))
    assert finding.key == "tpuflex:catalog.images[0].security_floor"
    assert "0.23.1" in finding.problem


def test_a_row_cannot_lower_the_floor_of_an_image_that_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes with tpuflex may have a higher floor than other images; leaving it out of one's
    own row lowers it, too."""
    raised = CatalogRows.model_validate(image_row("0.31.0", "0.30.2")["catalog"])
    monkeypatch.setattr("tpuflex.settings.catalog_rows.builtin", lambda: builtin().extended(raised))

    for floor in (None, "0.30.1"):
        (finding,) = findings(sections(image_row("0.31.0", floor)))
        assert "0.30.2" in finding.problem
    assert findings(sections(image_row("0.31.0", "0.30.2"))) == ()


def test_the_hosts_floor_is_the_images() -> None:
    """A row of the catalog raises the floor of its image; other images have ours."""
    own = parse(sections(image_row("0.31.0", "0.30.2")), "test")
    ours = parse(sections(), "test")

    assert boot_config(own, Names("p", "s", "e"), PIN).serving.security_floor == "0.30.2"
    assert boot_config(ours, Names("p", "s", "e"), PIN).serving.security_floor == "0.23.1"


def test_the_embedded_image_is_known() -> None:
    """The catalog has a row about the image that the embedded cloud serves with."""
    assert embedded_image() == CPU_IMAGE
    assert builtin().image(CPU_DIGEST) is not None
    assert max((row.fixed_in for row in ADVISORIES), key=release) == SECURITY_FLOOR
