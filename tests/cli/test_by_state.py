"""Commands on a stack that has a state, and a stack file that is wrong, gone, or not of tpuflex."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.typing import TypeIn
from tests.stack.recorded_states import endpoint, write_state
from tests.unit.stack_sections import embedded, sections
from tpuflex.errors import UsageError
from tpuflex.google.endpoints import REHEARSAL_VARIABLE
from tpuflex.stack.opening import open_deployed

#: What a command says that has opened a stack of the embedded cloud, which does not run.
OPENED = "The embedded cloud is not running."
GONE = (
    "stacks/Pulumi.dev.yaml is not there:"
    " going by the state, as the last `up` left it, on the embedded cloud.\n"
)
WRONG = (
    "stacks/Pulumi.dev.yaml is wrong (tpuflex:slcie: unknown key (line 14)):"
    " going by the state, as the last `up` left it, on the embedded cloud.\n"
)
TWICE_WRONG = "stacks/Pulumi.dev.yaml is wrong (tpuflex:oops: unknown key (line 14), and 1 more)"
EMPTY = "stacks/Pulumi.dev.yaml is wrong (is empty): going by the state"


@pytest.fixture
def file(project: Path) -> Path:
    """The stack file of a stack that is up on the embedded cloud."""
    write_state(project / ".tpuflex" / "backend", [endpoint("vllm", embedded())])
    return project / "stacks" / "Pulumi.dev.yaml"


@pytest.fixture
def shop(project: Path, file: Path) -> Path:
    """A program of the user's own with two endpoints, and a stack file that is its own."""
    chat, embed = endpoint("chat", embedded()), endpoint("embed", embedded())
    write_state(project / ".tpuflex" / "backend", [chat, embed])
    file.write_text("config:\n  shop:size: large\n")
    return project


@pytest.mark.parametrize("words", [("status",), ("logs",), ("ask", "Hello"), ("ssh",), ("tunnel",)])
def test_what_runs_is_found_without_its_file(
    type_in: TypeIn, file: Path, words: tuple[str, ...]
) -> None:
    """They ask the cloud, which they find by the state; one line says so."""
    file.unlink()

    typed = type_in(*words)

    assert typed.code == 9
    assert typed.err.startswith(GONE)
    assert OPENED in typed.err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("tpuflex:slice:", "tpuflex:slcie:", WRONG),
        ("tpuflex:slice:", "tpuflex:oops: 1\n  tpuflex:slcie:", TWICE_WRONG),
        ("", "", EMPTY),
        ("config:", "config: [", "stacks/Pulumi.dev.yaml is wrong (is not YAML"),
    ],
    ids=["typo", "typos", "empty", "no YAML"],
)
def test_a_wrong_file_is_named(type_in: TypeIn, file: Path, old: str, new: str, said: str) -> None:
    """What is wrong with the file is said, for the next `up`: the first problem, and how many more
    there are."""
    file.write_text(file.read_text().replace(old, new) if old else "")

    typed = type_in("status")

    assert typed.code == 9
    assert typed.err.startswith(said)


@pytest.mark.parametrize(
    "words", [("up", "--yes"), ("preview",), ("weights", "ls"), ("secrets", "ls")]
)
def test_what_deploys_or_fills_needs_a_right_file(
    type_in: TypeIn, file: Path, words: tuple[str, ...]
) -> None:
    """They would act on what the user has just changed, so nothing stands in for it."""
    file.write_text("config:\n  tpuflex:slcie: {}\n")

    typed = type_in(*words)

    assert typed.code == 5
    assert "going by the state" not in typed.err


def on_both_clouds(project: Path) -> dict[str, str]:
    """Give the stack a state on Google, too: an environment that names its backend."""
    states = project / "states"
    write_state(states, [endpoint("vllm", sections())])
    return {"PULUMI_BACKEND_URL": f"file://{states}"}


@pytest.mark.parametrize(
    ("text", "cloud"),
    [
        ("config:\n  tpuflex:cloud: google\n  tpuflex:slcie: {}\n", "google"),
        ("config: [\n  'tpuflex:cloud': \"google\"  # no YAML\n", "google"),
        ("config: {tpuflex:cloud: embedded, tpuflex:slcie: {}}\n", "embedded"),
        ("config:\n  tpuflex:cloud: embedded\n  tpuflex:cloud: google\n", "both"),
        ("config:\n  # tpuflex:cloud: google\n  tpuflex:cloud: moon\n", "both"),
        ("", "both"),
        (None, "both"),
    ],
)
def test_a_stack_that_is_on_both_clouds(
    type_in: TypeIn, project: Path, file: Path, text: str | None, cloud: str
) -> None:
    """What its file plainly says decides which is meant. Where it says nothing, none is chosen: the
    wrong one would be taken down."""
    environ = on_both_clouds(project)
    if text is None:
        file.unlink()
    else:
        file.write_text(text)

    said: list[str] = []
    known = {"HOME": str(project), **environ}
    if cloud == "both":
        both = "is on the embedded cloud and on Google Cloud acme-serving: write `tpuflex:cloud:"
        with pytest.raises(UsageError, match=both):
            open_deployed(project, "dev", known, said.append)
        assert type_in("down", "--yes", **environ).code == 2
        return
    stack = open_deployed(project, "dev", known, said.append)
    assert stack.settings.cloud == cloud
    assert said[-1].endswith(f", as the last `up` left it, on {stack.cloud_text}.")


def test_stacks_on_google_are_listed_beside_embedded_ones(
    type_in: TypeIn, project: Path, file: Path
) -> None:
    """Where a backend is named it is asked, although each stack file is of the embedded cloud; a
    stack on both clouds is listed with the reason, and ends nothing."""
    del file
    states = project / "states"
    write_state(states, [endpoint("vllm", sections())], stack="left")
    environ = {"PULUMI_BACKEND_URL": f"file://{states}"}

    listed = type_in("ci", "stacks", "--up", **environ)

    assert listed.out == "dev\nleft\n"
    assert "Pulumi.left.yaml is not there" in listed.err
    write_state(project / ".tpuflex" / "backend", [endpoint("vllm", embedded())], stack="left")
    both = type_in("ci", "stacks", "--up", **environ)
    assert (both.code, both.out) == (0, "dev\nleft\n")


def test_a_name_without_a_state_is_no_stack(type_in: TypeIn, file: Path) -> None:
    """A misspelt --stack is an error that says that there is no such stack."""
    del file

    typed = type_in("--stack", "prdo", "status")

    assert typed.code == 4
    assert typed.err.startswith("Error: There is no stack 'prdo'")


def test_a_state_on_google_is_none_of_a_rehearsals(type_in: TypeIn, project: Path) -> None:
    """A rehearsal goes by the states of its own backend alone: what the real one has was not
    rehearsed."""
    write_state(project / ".tpuflex" / "backend", [endpoint("vllm", sections())])
    (project / "stacks" / "Pulumi.dev.yaml").unlink()

    assert type_in("status", **{REHEARSAL_VARIABLE: "1"}).code == 4

    write_state(project / ".tpuflex" / "rehearsal" / "backend", [endpoint("vllm", sections())])
    rehearsed = type_in("status", **{REHEARSAL_VARIABLE: "1"})
    assert rehearsed.code == 9
    assert OPENED in rehearsed.err


@pytest.mark.parametrize(
    "words",
    [("status",), ("logs",), ("weights", "ls"), ("secrets", "ls"), ("weights", "verify")],
)
def test_an_endpoint_of_ones_own_program(
    type_in: TypeIn, shop: Path, words: tuple[str, ...]
) -> None:
    """Of several one has to be named; by its name it is found, and nothing is said of a file. What
    deploys it is `pulumi`."""
    del shop

    unnamed = type_in(*words)
    other = type_in(*words, "--endpoint", "talk")
    named = type_in(*words, "--endpoint", "embed")

    assert unnamed.code == 2
    assert "Stack dev has several endpoints (chat, embed): add --endpoint NAME." in unnamed.err
    assert other.code == 4
    assert other.err == "Error: Stack dev has no endpoint talk.\nIt has: chat, embed.\n"
    assert named.code == 9
    assert named.err.startswith(f"Error: {OPENED}")
    assert "Start it with the stack: pulumi up --stack dev" in named.err


def test_a_program_of_ones_own_before_its_first_up(type_in: TypeIn, shop: Path) -> None:
    """Without a state there is nothing to find, and it is said what makes one."""
    (shop / ".tpuflex" / "backend" / ".pulumi" / "stacks" / "tpuflex" / "dev.json").unlink()

    typed = type_in("status")

    assert typed.code == 4
    assert "once `pulumi up` has begun to make it" in typed.err


def test_a_schedule_leaves_out_what_a_program_of_ones_own_deploys(
    type_in: TypeIn, shop: Path
) -> None:
    """Only Pulumi can plan it: `tpuflex preview` would fail at each run of the schedule."""
    del shop

    listed = type_in("ci", "stacks", "--up")

    assert (listed.code, listed.out) == (0, "")
    assert "Left out, deployed by a program of your own: dev." in listed.err
