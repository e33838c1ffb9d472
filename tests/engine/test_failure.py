"""A failed operation of the engine becomes one error of ours."""

from __future__ import annotations

import pytest

from tpuflex.codes import Code, deciding_code, split_code, with_code
from tpuflex.engine.events import Note, Step
from tpuflex.engine.failure import (
    ProgramFailures,
    failure,
    less_than_planned,
    without_traceback,
)
from tpuflex.errors import (
    AccessError,
    AlreadyExistsError,
    BootError,
    CapacityError,
    ConflictError,
    EngineError,
    IncompleteTeardownError,
    NotFoundError,
    PlanChangedError,
    QuotaError,
    SettingsError,
    TpuflexError,
)
from tpuflex.queued_resource.outcomes import (
    PROTECTED,
    RUN_OVER_CLEANED,
    STUCK_DOWN,
    STUCK_UP,
    TABLE,
    Condition,
    Outcome,
)

FOREIGN_RULE = (
    "googleapi: Error 400: The network resource 'projects/p/global/networks/tpuflex-dev-vllm' is"
    " already being used by 'projects/p/global/firewalls/org-allow-scanner',"
    " resourceInUseByAnotherResource"
)
KEPT = "The request is kept: run `tpuflex up` again to go on waiting, or `tpuflex down`."
AGAIN_UP = "Run `tpuflex up` again once that is fixed."
AGAIN_DOWN = "Run `tpuflex down` again once that is fixed."
NEW_RUN = "For a new run: `tpuflex up --new-host`; `tpuflex down` cleans up."
KEYS = "These are keys of tpuflex:slice in the stack file."
GO_ON_DOWN = "Run `tpuflex down` again: it goes on where this one stopped."
End = tuple[type[TpuflexError], int, str]
#: How `up` and `down` end by the code of the provider's failure.
ENDS: dict[Code, tuple[End, End]] = {
    Code.WAITING: ((CapacityError, 3, ""), (CapacityError, 3, "")),
    Code.CAPACITY: ((CapacityError, 3, KEPT), (CapacityError, 3, KEPT)),
    Code.RUN_OVER: ((BootError, 7, KEYS), (BootError, 7, KEYS)),
    Code.RUN_ENDED: ((BootError, 7, NEW_RUN), (BootError, 7, NEW_RUN)),
    Code.NOT_GONE: ((ConflictError, 1, AGAIN_UP), (IncompleteTeardownError, 10, GO_ON_DOWN)),
    Code.PROTECTED: ((ConflictError, 1, ""), (ConflictError, 1, "")),
    Code.NOT_SERVING: ((BootError, 7, ""), (BootError, 7, "")),
    Code.NAME_TAKEN: ((AlreadyExistsError, 1, AGAIN_UP), (AlreadyExistsError, 1, AGAIN_DOWN)),
    Code.QUOTA: ((QuotaError, 6, AGAIN_UP), (QuotaError, 6, AGAIN_DOWN)),
    Code.PERMISSION: ((AccessError, 6, AGAIN_UP), (AccessError, 6, AGAIN_DOWN)),
    Code.STOPPED: ((EngineError, 8, ""), (EngineError, 8, "")),
}
#: What the provider says: without its code it is anybody's.
SENTENCES = (
    "projects/p/locations/z/queuedResources/r is not active after 24h: in the queue",
    "r FAILED: no more capacity in the zone (cause: stock-out)",
    TABLE[Condition.WAITING].up.text,
    RUN_OVER_CLEANED,
    "the run of r is over (SUSPENDED); its hosts are gone",
    "r is not gone after 3h (DELETING: being deleted)",
    f"r is ACTIVE and {PROTECTED.text}: it is not deleted",
    "projects/p/locations/z/queuedResources/r belongs to stack prod",
)


def error(text: str, name: str = "") -> Note:
    return Note("error", text, name)


class TestCode:
    @pytest.mark.parametrize("code", Code)
    @pytest.mark.parametrize("text", ["one thing", "no quota, no permission", *SENTENCES])
    def test_decides_alone(self, code: Code, text: str) -> None:
        """Class, exit code and hint follow from the code, whatever the words are."""
        note = Note.of("error", f"1 error occurred:\n\t* {with_code(text, code)}\n\n", "slice")
        for operation, end in zip(("up", "destroy"), ENDS[code], strict=True):
            found = failure(operation, [note], "")

            assert (type(found), found.exit_code, str(found.hint)) == end
            assert found.message == f"slice: {text}"

    @pytest.mark.parametrize("text", SENTENCES)
    def test_a_sentence_without_it_is_anybodys(self, text: str) -> None:
        """Nobody is taken for our provider because of the words."""
        found = failure("destroy", [Note.of("error", text)], "")

        assert (type(found), str(found.hint)) == (EngineError, AGAIN_DOWN)

    @pytest.mark.parametrize("text", ["a [quote]", "[waiting]", "a [waiting] b", "a[waiting]"])
    def test_is_a_suffix(self, text: str) -> None:
        """Brackets elsewhere belong to the text."""
        assert split_code(text) == (text, None)

    def test_of_several(self) -> None:
        """The upper one of the table decides, over Google's words in another failure, too."""
        notes = [
            error("Quota 'CPUS' exceeded", "net"),
            Note.of("error", "r is protected [protected]", "slice"),
        ]

        assert type(failure("up", notes, "")) is ConflictError
        assert deciding_code([None, Code.PERMISSION, Code.CAPACITY, None]) is Code.CAPACITY
        assert deciding_code([None]) is None


class TestKind:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            ("Quota 'CPUS' exceeded", QuotaError),
            ("googleapi: Error 403: PERMISSION_DENIED", AccessError),
            ("the name is taken", EngineError),
        ],
    )
    def test_of_other_providers_words(self, text: str, kind: type[TpuflexError]) -> None:
        """Without a code, Google's words decide."""
        found = failure("up", [error(text, "endpoint")], "")

        assert type(found) is kind
        assert found.message == f"endpoint: {text}"

    @pytest.mark.parametrize(
        ("operation", "command", "hint"),
        [
            ("up", "up", "Repair the state first: tpuflex recover"),
            ("destroy", "down", "Repair the state first: tpuflex recover"),
            ("preview", "preview", "Nothing was changed: run it again."),
        ],
    )
    def test_a_plugin_that_died(self, operation: str, command: str, hint: str) -> None:
        """The engine keeps nothing of what it had begun, so the next command is `recover`; what the
        plugin printed at its end is shown."""
        told = (
            "Detected that /home/me/.pulumi/plugins/gcp-v9/pulumi-resource-gcp exited prematurely. "
            "\n       This is *always* a bug in the provider. Please report the issue to the "
            "provider author as appropriate.\n       To assist with debugging we have dumped the "
            "STDOUT and STDERR streams of the plugin:\npanic: nil\n"
        )

        found = failure(
            operation, [error("error reading from server: EOF", "net"), error(told)], ""
        )

        assert type(found) is EngineError
        assert found.message.startswith(
            f"pulumi-resource-gcp ended in the middle of `{command}`: it crashed or was killed"
            " (out of memory, for example).\npanic: nil"
        )
        assert ("in the cloud but not in the state" in found.message) is (operation != "preview")
        assert str(found.hint) == hint

    @pytest.mark.parametrize(("operation", "outcome"), [("up", STUCK_UP), ("destroy", STUCK_DOWN)])
    def test_what_does_not_go(self, operation: str, outcome: Outcome) -> None:
        """A teardown that has to leave something is incomplete; an `up` is in conflict."""
        text = f"g1 is not gone after 3h (DELETING: being deleted)\n{outcome.text} [not-gone]"

        assert failure(operation, [Note.of("error", text)], "").exit_code == outcome.exit_code

    def test_locked(self) -> None:
        """A locked stack names the command that breaks the lock of a killed run."""
        stderr = (
            "error: the stack is currently locked by 1 lock(s). Either wait for the other …\n"
            "  file:///b/locks/1.json: created by jo@desk (pid 812) at 2026-11-21T12:02:04Z\n"
        )
        found = failure("up", [], stderr)

        assert type(found) is EngineError
        assert "process 812 of jo on desk, since 2026-11-21T12:02:04Z" in found.message
        assert "tpuflex recover" in str(found.hint)
        assert not found.section

    def test_locked_in_a_bucket(self) -> None:
        """Pulumi breaks that lock, and a section of the manual says when."""
        stderr = (
            "error: the stack is currently locked by 1 lock(s). Either wait for the other …\n"
            "  gs://states/.pulumi/locks/organization/p/dev/1.json: created by jo@desk (pid 812)\n"
        )
        found = failure("up", [], stderr)

        assert "pulumi cancel" in str(found.hint)
        assert found.section == "troubleshooting#a-lock-in-a-bucket"

    def test_removed_meanwhile(self) -> None:
        """An `up` whose stack a `down` removes meanwhile says so."""
        found = failure("up", [], "error: no stack named 'dev' found")

        assert type(found) is NotFoundError
        assert "a `tpuflex down` that ran meanwhile has removed it" in found.message
        assert "tpuflex up" in str(found.hint)

    def test_after_a_killed_run(self) -> None:
        """A failure that follows a killed run points to the command that repairs its state."""
        warning = Note(
            "warning",
            "Attempting to deploy or update resources with 1 pending operations from previous "
            "deployment.",
        )
        found = failure("up", [warning, error("Error 409: already exists", "net")], "")

        assert found.message == "net: Error 409: already exists"
        assert "tpuflex recover" in str(found.hint)

    def test_a_bucket_name_that_somebody_has(self) -> None:
        """S6: the error names the key that gives the bucket another name."""
        text = "googleapi: Error 409: The requested bucket name is not available., conflict"

        found = failure("up", [error(text, "vllm-weights")], "")

        assert isinstance(found, AlreadyExistsError)
        assert "tpuflex:model.weights.bucket_suffix" in str(found.hint)

    @pytest.mark.parametrize(
        "text",
        [
            "Error creating Network: googleapi: Error 409: The resource 'projects/p/global/"
            "networks/n' already exists, alreadyExists",
            "Error creating Secret: googleapi: Error 409: Secret [projects/1/secrets/s] already "
            "exists.",
            "googleapi: Error 409: Your previous request to create the named bucket succeeded and "
            "you already own it., conflict",
        ],
    )
    def test_a_resource_that_is_there_but_not_in_the_state(self, text: str) -> None:
        """After a lost create answer every further `up` would fail; `recover` mends it."""
        found = failure("up", [error(text, "net")], "")

        assert found.message == f"net: {text}"
        assert "`tpuflex recover` adds it to the state" in str(found.hint)
        assert "again" not in str(found.hint)

    def test_state_that_was_cut_short(self) -> None:
        """So does a state that a kill left unreadable."""
        found = failure("stack select", [], "error: failed to load checkpoint: EOF")

        assert "tpuflex recover" in str(found.hint)


class TestMessage:
    def test_echoes_and_repetitions_are_left_out(self) -> None:
        """`update failed`, and the same text twice, say nothing new."""
        notes = [
            error("1 error occurred:\n\t* boom\n\n", "a"),
            error("update failed"),
            error("boom", "a"),
        ]

        assert failure("up", notes, "").message == "a: boom"

    def test_what_the_published_plugin_logs_and_reports_is_said_once(self) -> None:
        """It logs each error with its own place and version around it, and reports it, too."""
        text = "Error creating Network: googleapi: Error 400: Invalid value, invalid"
        notes = [
            error(
                f"sdk-v2/provider2.go:571: sdk.helper_schema: {text}: provider=google-beta@10.2.0",
                "net",
            ),
            error(f"1 error occurred:\n\t* {text}\n\n", "net"),
        ]

        assert failure("up", notes, "").message == f"net: {text}"

    def test_without_notes_the_end_of_stderr(self) -> None:
        """When the engine gave no diagnostics, what it printed is shown."""
        found = failure("preview", [], "error: no Pulumi.yaml found\n")

        assert found.message == "pulumi preview failed:\nerror: no Pulumi.yaml found"

    def test_no_traceback(self) -> None:
        """A traceback is reduced to its last line."""
        text = (
            "python inline source runtime error: boom\nTraceback (most recent call last):\n"
            '  File "a.py", line 1, in <module>\n    f()\nValueError: boom'
        )

        assert (
            without_traceback(text) == "python inline source runtime error: boom\nValueError: boom"
        )


class TestProgramFailures:
    def test_keeps_our_error(self) -> None:
        """An error of ours in the program is kept whole; the engine gets one line."""
        from pulumi import RunError

        failures = ProgramFailures()
        mine = SettingsError("Pulumi.dev.yaml", ())

        def program() -> None:
            raise mine

        with pytest.raises(RunError):
            failures.guard(program)()

        assert failures.errors == [mine]

    async def test_keeps_our_error_from_a_coroutine(self) -> None:
        """The same for what runs between the resources."""
        from pulumi import RunError

        failures = ProgramFailures()

        async def prepare() -> None:
            raise CapacityError("none")

        with pytest.raises(RunError):
            await failures.guard_async(prepare)()

        assert [type(found) for found in failures.errors] == [CapacityError]


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (
            "error: create is not allowed by the plan: no steps were expected for this resource",
            "allow-ssh",
            "create of allow-ssh",
        ),
        (
            "error: replace is not allowed by the plan: this resource is constrained to same",
            "vllm",
            "replace of vllm",
        ),
        (
            "error: delete is not allowed by the plan: this resource is constrained to same",
            "tpuflex-dev",
            "a deletion",
        ),
        (
            "error: resource urn:pulumi:dev::p::t::vllm violates plan: properties changed: =~a[b]",
            "vllm",
            "one of vllm with other inputs",
        ),
    ],
)
def test_a_step_that_was_not_planned(text: str, name: str, said: str) -> None:
    """What the engine refuses because its plan does not have it is named, without its values; the
    complaint about it is not taken for a plan that was done in part."""
    notes = [Note("error", text, name), Note("error", "update failed")]

    error = failure("up", notes, "")

    assert isinstance(error, PlanChangedError)
    assert error.message.endswith(f"the first step that was not in the plan: {said}.")
    assert not less_than_planned(notes, [])


def test_less_than_was_planned() -> None:
    """A replacement that turned out not to be needed is no failure; one that was not come to is,
    and is not named beside what kept the engine from it."""
    left = Note("error", "expected resource operations for urn:x but none were seen", "x")
    full = Note("error", "There is no more capacity in the zone", "vllm")
    same = Step("same", "", "x", "urn:x")

    assert less_than_planned([left, Note("error", "update failed")], [same])
    assert not less_than_planned([left], [])
    assert not less_than_planned([left], [Step("create-replacement", "", "x", "urn:x")])
    assert not less_than_planned([left, full], [same])
    assert not less_than_planned([], [same])
    assert failure("up", [left, full], "").message == failure("up", [full], "").message


def test_crash_of_the_program() -> None:
    """An exception that is not of our error tree is reported as a bug, in one line."""
    text = (
        "python inline source runtime error: no attribute 'x'\nTraceback (most recent call last):\n"
        "  File \"a.py\", line 1, in <module>\n    f()\nAttributeError: no attribute 'x'"
    )

    found = failure("preview", [error(text), error(f"an unhandled error occurred: {text}")], "")

    assert found.message == "The Pulumi program failed: no attribute 'x'"
    assert "bug" in str(found.hint)


@pytest.mark.parametrize(
    ("operation", "hint"),
    [("up", "tpuflex recover"), ("destroy", "tpuflex recover"), ("preview", "")],
)
def test_an_engine_that_ends_without_a_word_was_killed(operation: str, hint: str) -> None:
    """Nothing explains it, so the error says what it may have been, and where to go on."""
    error = failure(operation, [], "")

    assert "ended without a word" in error.message
    assert hint in str(error.hint)


def test_a_firewall_rule_of_somebody_else_is_named_with_its_remedy() -> None:
    """An organisation that adds rules to every network keeps `down` from deleting it."""
    error = failure("destroy", [Note("error", FOREIGN_RULE, "vllm-network")], "")

    assert isinstance(error, EngineError)
    assert str(error.hint).endswith(
        "Run: gcloud compute firewall-rules delete org-allow-scanner --project=p\n"
        "then `tpuflex down` again."
    )
    assert str(failure("up", [Note("error", FOREIGN_RULE, "n")], "").hint) == AGAIN_UP


@pytest.mark.parametrize(
    "text",
    [
        "googleapi: Error 403: Object 'b/model.safetensors' is subject to bucket's retention policy"
        " and cannot be deleted, overwritten or archived until 2026-12-01T00:00:00Z, forbidden",
        "Bucket 'b' contains objects that have not met the retention period yet and cannot be"
        " deleted.",
    ],
)
def test_a_bucket_that_is_retained_is_no_missing_permission(text: str) -> None:
    """What a retention policy keeps, `down` deletes later: no role would help."""
    error = failure("destroy", [Note("error", text, "weights")], "")

    assert isinstance(error, IncompleteTeardownError)
    assert str(error.hint).startswith("Run `tpuflex down` again after that time.")
    assert str(error.hint).endswith("gcloud storage buckets update gs://b --clear-retention-period")


def test_b2_an_api_that_is_off_is_somebodys_permission_to_give() -> None:
    """Google's words for an API that is not enabled, from pulumi-gcp, end with exit code 6."""
    text = "Error 403: Cloud DNS API has not been used in project 1 before, accessNotConfigured"

    assert isinstance(failure("up", [Note("error", text, "zone")], ""), AccessError)


@pytest.mark.parametrize("operation", ["up", "destroy"])
def test_lost_billing_is_said_with_what_gives_it_back(operation: str) -> None:
    """An engineer on call: a plugin's refusal for want of billing ended with exit code 8, and no
    command."""
    text = (
        "Error when reading Network: googleapi: Error 403: This API method requires billing to be"
        " enabled. Please enable billing on project #1 by visiting https://console.developers."
        "google.com/billing/enable?project=1 then retry., forbidden; projects/shop-ml/global"
    )

    error = failure(operation, [Note("error", text, "vllm-network")], "")

    assert isinstance(error, AccessError)
    assert "gcloud billing projects link shop-ml --billing-account=ACCOUNT_ID" in str(error.hint)


def test_a_remedy_that_the_provider_has_given_is_not_said_twice() -> None:
    """Our own provider says what to do about lost billing itself."""
    text = (
        "GET https://tpu.googleapis.com/v2alpha1/projects/shop-ml/x: requires billing to be enabled"
    )
    remedy = str(failure("up", [Note("error", text, "vllm")], "").hint).removesuffix(
        f"\n{AGAIN_UP}"
    )
    assert "gcloud billing projects link shop-ml" in remedy

    error = failure("up", [Note("error", f"{text}\n{remedy}", "vllm", code=Code.PERMISSION)], "")

    assert str(error.hint) == AGAIN_UP


def test_a_missing_permission_is_said_with_its_role() -> None:
    """An engineer on call: a refusal named the permission, and not the role that holds it."""
    text = (
        "googleapi: Error 403: Permission 'dns.changes.create' denied on resource"
        " '//dns.googleapis.com/projects/shop-ml/managedZones/z/changes'"
    )

    error = failure("destroy", [Note("error", text, "n")], "")

    assert isinstance(error, AccessError)
    assert str(error.hint) == (
        "gcloud projects add-iam-policy-binding shop-ml --member=MEMBER --role=roles/dns.admin\n"
        f"where MEMBER is you, such as user:you@example.com\n{AGAIN_DOWN}"
    )


def test_forbidden_is_a_permission_in_whatever_words() -> None:
    """The plugin's refusals need not say the word; a rate limit is none."""
    for reason, kind in (("forbidden", AccessError), ("rateLimitExceeded", EngineError)):
        text = f"Error deleting DNS RecordSet: googleapi: Error 403: Forbidden, {reason}"
        assert type(failure("destroy", [Note("error", text, "n")], "")) is kind


def test_a_slice_that_may_not_be_deleted_is_still_billed() -> None:
    """An engineer on call: that the slice runs on, and costs, was left out."""
    text = (
        "DELETE https://tpu.googleapis.com/v2alpha1/projects/p-1/locations/z/queuedResources/q: 403"
        " PERMISSION_DENIED: Permission 'tpu.nodes.delete' denied on resource"
    )

    error = failure("destroy", [Note("error", text, "vllm", code=Code.PERMISSION)], "")

    assert str(error.hint).startswith("The slice is still there, and still billed.\n")
    assert "--role=roles/tpu.admin" in str(error.hint)


def test_a_long_refusal_keeps_the_line_that_says_what_it_is_about() -> None:
    """The engine names the file first, and the reason last."""
    noise = "\n".join(f"  at frame {number}" for number in range(40))

    found = failure("preview", [], f"error: stacks/Pulumi.dev.yaml: bad\n{noise}\nreason: it is")

    lines = found.message.splitlines()
    assert lines[1] == "error: stacks/Pulumi.dev.yaml: bad"
    assert lines[-1] == "reason: it is"
    assert len(lines) < 20
