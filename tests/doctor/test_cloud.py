"""`tpuflex doctor` on an embedded cloud, and `up`'s part of it.

Without an engine: what `up` asks for is asked for directly.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.cli.samples import status
from tests.doctor.examined import DIGEST, MIRROR, PROJECT, Doctor, quota
from tests.doctor.missing_rows import half_pushed
from tests.embedded_cloud.api import TOKEN
from tpuflex.deploy.stack_up import require_checks, require_source, up
from tpuflex.doctor import rights as doctor_caller
from tpuflex.doctor import weights as doctor_weights
from tpuflex.doctor.account import credential_examination
from tpuflex.doctor.check import Standing
from tpuflex.doctor.cloud import ExaminedCloud
from tpuflex.doctor.examine import cloud_examinations
from tpuflex.doctor.host_account import account_checks
from tpuflex.doctor.side_by_side import DECISIVE, examine_all
from tpuflex.errors import NotFoundError, SettingsError, TpuflexError
from tpuflex.google.required_apis import APIS
from tpuflex.naming import API_KEY, programs_key
from tpuflex.settings.weights_source import LocalDirectory
from tpuflex.stack.progress import agree


def test_all_is_well(doctor: Doctor) -> None:
    """Nothing fails and nothing is unknown; every examination of `up` has looked at something."""
    found = doctor.checks()

    assert {check.standing for check in found.values()} == {Standing.OK, Standing.SKIPPED}
    assert found["image"].text == f"{MIRROR}/vllm/vllm-tpu"
    assert {*DECISIVE} <= {each.name for each in cloud_examinations(doctor.cloud)}
    require_checks(doctor.cloud)
    ((credential,),) = examine_all([credential_examination(ExaminedCloud(doctor.cloud))])
    assert (credential.standing, credential.text) == (
        Standing.OK,
        "the embedded cloud's own token",
    )


def test_a_state_whose_bucket_may_not_be_read(doctor: Doctor) -> None:
    """The engine reads it by credentials of its own: nothing is known, and the command that lists
    the locks is named."""
    doctor.backend = "gs://not-there"
    lock = doctor.checks()["lock"]
    assert lock.standing is Standing.UNKNOWN
    assert "bucket does not exist" in str(lock.text)
    assert str(lock.remedy).startswith("gcloud storage ls 'gs://not-there/")


def test_no_lock_and_what_is_no_lock(doctor: Doctor) -> None:
    """A bucket without locks of this stack is free; an object in a lock's place that is none may
    be anybody's, and is not taken for free."""
    doctor.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": "our-states"})
    doctor.backend = "gs://our-states"
    assert doctor.checks()["lock"].standing is Standing.OK
    name = ".pulumi/locks/organization/tpuflex/dev/1.json".replace("/", "%2F")
    doctor.call("POST", f"upload/storage/v1/b/our-states/o?uploadType=media&name={name}", {"a": 1})
    assert doctor.checks()["lock"].text == "a lock in the bucket cannot be read as one"


def test_the_mirror_needs_its_api_first(doctor: Doctor) -> None:
    """Without Artifact Registry the command that makes the mirror is refused, so the remedy begins
    with what enables it; where it is on, the mirror is all that is missing."""
    doctor.change("serving", image=f"{MIRROR}2/vllm/vllm-tpu@{DIGEST}")
    create = "gcloud artifacts repositories create dockerhub2 "
    assert str(doctor.checks()["image"].remedy).startswith(create)
    doctor.strict(apis={"enforced": True})
    service = "artifactregistry.googleapis.com"
    doctor.call("POST", f"{PROJECT}/services/{service}:disable", {})

    found = doctor.checks()["image"]

    enable, then, *_ = str(found.remedy).splitlines()
    assert found.standing is Standing.FAILED
    assert enable == f"gcloud services enable {service} --project=tpuflex-dev"
    assert then.startswith(create)


@pytest.mark.parametrize("bucket", [False, True])
def test_a_source_that_is_not_there_is_told_before_anything_else(
    doctor: Doctor, *, bucket: bool
) -> None:
    """What is wrong on this machine is found out before any API is enabled; who has a bucket may
    have the weights in it."""
    weights = doctor.stack.settings.model.weights.model_copy(
        update={"source": LocalDirectory("models/none")}
    )
    doctor.change("model", weights=weights, name="google/gemma-4-E4B-it")
    if bucket:
        doctor.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": doctor.cloud.bucket})
        require_source(doctor.cloud)
        return
    doctor.strict(apis={"enforced": True, "bare_projects": True})
    doctor.call("POST", f"{PROJECT}/services/storage.googleapis.com:disable", {})

    with pytest.raises(SettingsError, match="models/none does not exist") as refused:
        require_source(doctor.cloud)

    fetch = "hf download google/gemma-4-E4B-it --local-dir models/none\n"
    assert str(refused.value.hint).startswith(fetch)
    enabled = doctor.call("GET", f"{PROJECT}/services/storage.googleapis.com")
    assert enabled["state"] == "DISABLED"


def test_up_looks_at_the_source_first(doctor: Doctor) -> None:
    """Nothing is enabled or planned before; who lets the weights come later goes on."""
    doctor.change("serving", image=f"tpuflex/vllm-cpu@{DIGEST}")
    weights = doctor.stack.settings.model.weights.model_copy(
        update={"source": LocalDirectory("models/none")}
    )
    doctor.change("model", weights=weights)
    doctor.strict(apis={"enforced": True})
    doctor.call("POST", f"{PROJECT}/services/dns.googleapis.com:disable", {})

    with pytest.raises(SettingsError, match="models/none does not exist"):
        up(doctor.cloud, consent=agree)

    state = doctor.call("GET", f"{PROJECT}/services/dns.googleapis.com")["state"]
    assert state == "DISABLED"


def test_an_api_that_was_enabled_a_moment_ago(doctor: Doctor) -> None:
    """An API that is enabled and does not answer yet is a warning of its own."""
    doctor.strict(apis={"enforced": True, "answers_after_s": 60})
    doctor.call("POST", f"{PROJECT}/services/tpu.googleapis.com:disable", {})
    doctor.call("POST", f"{PROJECT}/services/tpu.googleapis.com:enable", {})

    found = doctor.checks()["tpu.googleapis.com"]

    assert (found.standing, found.text) == (Standing.WARNING, "enabled, and does not answer yet")


def test_a_check_that_the_user_goes_on_without(doctor: Doctor) -> None:
    """What is skipped by name does not refuse; another failure still does."""
    doctor.strict(billing={"enabled": False})
    require_checks(doctor.cloud, ["billing"])
    doctor.capacity(quota=quota(0, 0))

    with pytest.raises(TpuflexError, match="quota") as refused:
        require_checks(doctor.cloud, ["billing"])
    assert "--skip-check quota" in str(refused.value.hint)
    with pytest.raises(TpuflexError, match="billing") as refused:
        require_checks(doctor.cloud)
    assert "--skip-check billing --skip-check quota" in str(refused.value.hint)


@pytest.mark.parametrize(("programs", "standing"), [("bucket", "FAILED"), ("none", "OK")])
def test_a_right_in_a_bucket_of_yours_is_none_in_the_project(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, programs: str, standing: str
) -> None:
    """Where the stack makes a bucket beside it, for compiled programs, the same right is needed
    there; where it makes none, that in the bucket of yours is enough."""
    doctor.strict(permissions={"missing": ["storage.buckets.getIamPolicy"]})
    monkeypatch.setattr(doctor_caller, "held_in", lambda _api, _bucket, asked: frozenset(asked))
    weights = doctor.stack.settings.model.weights
    existing = weights.model_copy(update={"bucket": "gs://acme-models/llm"})
    doctor.change("model", weights=existing)
    doctor.change("serving", compile_cache=programs)

    assert doctor.checks()["tpuflex up"].standing is Standing[standing]


def test_a_new_project_with_every_api_off(doctor: Doctor) -> None:
    """What cannot be read because an API is off is unknown with the command that enables it,
    and does not keep `up` from enabling it."""
    doctor.stack = replace(
        doctor.stack, settings=doctor.stack.settings.model_copy(update={"project": "brand-new"})
    )
    doctor.strict(apis={"enforced": True, "bare_projects": True})

    found = doctor.checks()

    assert not [check for check in found.values() if check.standing is Standing.FAILED]
    assert found["v6e-1 in us-east5-a"].to_json() == {
        "group": "Accelerators and quota",
        "name": "v6e-1 in us-east5-a",
        "standing": "unknown",
        "text": "tpu.googleapis.com is not enabled in brand-new, or not yet",
        "remedy": "gcloud services enable tpu.googleapis.com --project=brand-new",
    }
    assert found["project"].standing is Standing.UNKNOWN
    require_checks(doctor.cloud)


def test_a_token_that_is_refused(doctor: Doctor) -> None:
    """A token that was good once fails as a credential, and no API is taken to answer."""
    doctor.token = f"{TOKEN}.old"

    ((credential,),) = examine_all([credential_examination(ExaminedCloud(doctor.cloud))])

    assert (credential.standing, credential.kind.exit_code) == (Standing.FAILED, 6)
    assert "emulator env" in str(credential.remedy)
    found = doctor.checks()
    assert {found[api.service].standing for api in APIS} == {Standing.UNKNOWN}
    assert not [check for check in found.values() if check.standing is Standing.FAILED]


def test_a_cloud_that_does_not_answer(doctor: Doctor) -> None:
    """A cloud that is gone leaves everything unknown at once, and `up` goes on to say so itself."""
    doctor.url = "http://127.0.0.1:9"  # the port `discard`, where nobody listens

    found = doctor.checks()

    assert {check.standing for check in found.values()} <= {
        Standing.OK,
        Standing.UNKNOWN,
        Standing.SKIPPED,
    }
    assert found["billing"].standing is Standing.UNKNOWN
    require_checks(doctor.cloud)


def test_damaged_weights_of_a_slice_that_is_active(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engineer on call: doctor said that `up` pushes them, `up` had nothing to do and pushed
    nothing, and so on in a circle."""
    source = doctor.stack.settings.model.weights.source
    half_pushed(doctor)
    weights = doctor.stack.settings.model.weights.model_copy(update={"source": source})
    doctor.change("model", weights=weights)
    assert doctor.checks()["weights"].standing is Standing.OK
    monkeypatch.setattr(doctor_weights, "slice_status", lambda *_args: status())

    found = doctor.checks()["weights"]

    assert found.standing is Standing.WARNING
    assert found.remedy == "tpuflex weights push DIRECTORY --stack dev"


def test_what_a_slice_needs_that_somebody_has_deleted(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host serves on, and would not boot again. Of a stack that is not up, nothing is said."""
    assert "deleted" not in doctor.checks()
    monkeypatch.setattr(doctor_weights, "slice_status", lambda *_args: status())

    found = doctor.checks()["deleted"]

    secret = doctor.cloud.stack.names.secret(API_KEY)
    assert found.standing is Standing.WARNING
    assert found.text == f"The secret {secret} was deleted outside of tpuflex"
    assert str(found.remedy) == "`tpuflex up`"


def test_a_library_in_two_regions_is_granted_in_both(doctor: Doctor) -> None:
    """Who grants the roles is told of each region's bucket, and of what signs programs:
    hosts come up in either."""
    account = "vllm-hosts@tpuflex-dev.iam.gserviceaccount.com"
    doctor.change("identity", service_account=account, manage_grants=False)
    weights = doctor.stack.settings.model.weights.model_copy(update={"bucket": "library"})
    doctor.change("model", weights=weights)
    doctor.change("slice", zones=("us-east5-a", "europe-west4-a"))

    found = account_checks(ExaminedCloud(doctor.cloud))

    told = {check.name: str(check.remedy).split(" --member")[0] for check in found}
    for region, bucket in doctor.cloud.buckets.items():
        let_in = f"gcloud storage buckets add-iam-policy-binding gs://{bucket}"
        assert told[f"hosts: read the weights in {region}"] == let_in
        assert told[f"hosts: keep programs in {region}"] == let_in
    key = programs_key("tpuflex-dev").rpartition("/")[2]
    sign = f"gcloud secrets add-iam-policy-binding {key} --project=tpuflex-dev"
    assert told["hosts: sign programs"] == sign
    assert set(doctor.cloud.buckets) == {"us-east5", "europe-west4"}


def test_notification_channels(doctor: Doctor) -> None:
    """`up` refuses one that is not there before anything is made, and names it with what lists
    those that are; of one that notifies nobody it says so."""
    channels = "v3/projects/tpuflex-dev/notificationChannels"
    there = doctor.call("POST", channels, {"type": "email", "displayName": "On call"})
    off = doctor.call("POST", channels, {"type": "sms", "enabled": False})
    missing = "projects/tpuflex-dev/notificationChannels/1"
    names = (there["name"], off["name"], missing)
    doctor.change("monitoring", alert_policies=True, notification_channels=names)

    (found,) = (
        checks
        for each, checks in ((each, each.examine()) for each in cloud_examinations(doctor.cloud))
        if each.name == "channels"
    )

    assert [check.standing for check in found] == [
        Standing.OK,
        Standing.WARNING,
        Standing.FAILED,
    ]
    assert found[0].text == f"On call, {there['name']}"
    assert "notifies nobody" in str(found[1].text)
    with pytest.raises(NotFoundError, match=f"alert channel: {missing} is not there") as caught:
        require_checks(doctor.cloud, only=("channels",))
    assert "gcloud beta monitoring channels list --project=tpuflex-dev" in str(caught.value.hint)
    assert "--skip-check channels" in str(caught.value.hint)
