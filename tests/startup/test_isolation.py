"""What the startup script gives to the container, and what it does when that is not enough."""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.startup.cloud import FILES
from tests.startup.host import StartupHost
from tpuflex.startup.server_log import failure, last_lines, server_lines

LOGS = Path(__file__).with_name("server_logs")

TPU_ENV = """ACCELERATOR_TYPE: 'v6e-8'
CHIPS_PER_HOST_BOUNDS: '2,4,1'
HOST_BOUNDS: '1,1,1'
NODE_ID: 'n$(touch injected)'
TOPOLOGY: '2x4'
WRAP: 'false,false,false'
"""


def runs(host: StartupHost) -> list[list[str]]:
    """The words of each `docker run`."""
    return [shlex.split(call) for call in host.docker_calls("run")]


def values(words: list[str], option: str) -> list[str]:
    """What follows each ``option``."""
    return [words[index + 1] for index, word in enumerate(words) if word == option]


def isolation(host: StartupHost, mode: str) -> None:
    """Configure the host with serving.isolation: ``mode``."""
    container = host.config()["container"] | {"isolation": mode}
    host.cloud.config = host.config(container=container)


#: Starts the server, without the boot before and after it, and prints what is reported of that.
START = """phase() { :; }
report() { printf '%s=%s\\n' "$@"; }
detail() { printf 'detail=%s\\n' "$1"; }
read_config
WEIGHTS_DIR=$STATE_DIR/weights
printf 127.0.0.1 >"$STATE_DIR/address"
run_server
"""


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartupHost]:
    """A host with chips that has booted, and has told what it is; for reading only."""
    host = StartupHost(tmp_path_factory.mktemp("isolated"))
    host.cloud.put_weights(FILES)
    host.devices("vfio/vfio", "vfio/0", "vfio/1", "accel0", "sda", "mem")
    host.cloud.attributes["tpu-env"] = TPU_ENV
    assert host.run().status == 0
    yield host
    host.close()


def test_the_container_gets_its_devices_and_nothing_else(isolated: StartupHost) -> None:
    """S13: no privilege, no network of the host, no capability but SYS_RESOURCE; the devices."""
    (words,) = runs(isolated)
    assert "--privileged" not in words
    assert values(words, "--network") == ["tpuflex"]
    assert values(words, "--cap-drop") == ["ALL"]
    assert values(words, "--cap-add") == ["SYS_RESOURCE"]
    assert values(words, "--security-opt") == ["no-new-privileges"]
    devices = [device.removeprefix(f"{isolated.root}/dev/") for device in values(words, "--device")]
    assert sorted(devices) == ["accel0", "vfio/0", "vfio/1", "vfio/vfio"]
    assert isolated.cloud.last("isolation") == "isolated"


def test_only_the_serving_port_is_published_on_the_hosts_address(isolated: StartupHost) -> None:
    """S13: inside, the server listens for everybody; outside, one port of one address leads in."""
    (words,) = runs(isolated)
    port = words[words.index("--port") + 1]
    assert values(words, "--publish") == [f"127.0.0.1:{port}:{port}"]
    assert words[words.index("--host") + 1] == "0.0.0.0"  # noqa: S104


def test_nothing_begins_on_the_containers_bridge(isolated: StartupHost) -> None:
    """S13: before the container runs, rules drop what it would begin: to others and to the host."""
    rules = (isolated.directory / "iptables.calls").read_text().splitlines()
    match = "--in-interface tpuflex0 --match conntrack ! --ctstate ESTABLISHED,RELATED --jump DROP"
    assert rules == [f"--insert INPUT 1 {match}", f"--insert DOCKER-USER 1 {match}"]
    (created,) = (call for call in isolated.docker_calls("network") if "create" in call)
    assert "com.docker.network.bridge.name=tpuflex0" in created
    # A name server that is nobody's: names carry data out, too.
    assert values(runs(isolated)[0], "--dns") == ["192.0.2.53"]


def test_a_server_that_fetches_media_reaches_public_addresses_only(host: StartupHost) -> None:
    """S13: metadata server, host and private networks stay out of reach of a server with media."""
    container = host.config()["container"] | {"egress": "internet"}
    host.cloud.config = host.config(container=container)
    assert host.functions(START) == "isolation=isolated\n"
    dropped = (host.directory / "iptables.calls").read_text().splitlines()
    ranges = [line.split("--destination ")[1].split()[0] for line in dropped if "--dest" in line]
    closed = [ipaddress.ip_network(each) for each in ranges]
    for address in ("169.254.169.254", "10.128.0.9", "172.17.0.1", "192.168.0.1", "199.36.153.9"):
        assert any(ipaddress.ip_address(address) in each for each in closed), address
    assert not any(ipaddress.ip_address("93.184.216.34") in each for each in closed)
    assert any(line.startswith("--insert INPUT 1 --in-interface tpuflex0") for line in dropped)
    assert values(runs(host)[0], "--dns") == ["8.8.8.8"]


def test_libtpu_need_not_ask_the_metadata_server(isolated: StartupHost) -> None:
    """The host's own description becomes the variables that GKE's device plugin sets."""
    environment = dict(word.partition("=")[::2] for word in values(runs(isolated)[0], "--env"))
    assert environment["TPU_SKIP_MDS_QUERY"] == "true"
    assert environment["TPU_ACCELERATOR_TYPE"] == "v6e-8"
    assert environment["TPU_CHIPS_PER_HOST_BOUNDS"] == "2,4,1"
    assert environment["TPU_HOST_BOUNDS"] == "1,1,1"
    assert environment["TPU_WORKER_HOSTNAMES"] == "localhost"
    assert not list(isolated.directory.rglob("injected"))


#: What libtpu says where it may not use a chip: of reports, and of its own text.
REFUSED_DEVICES = (
    "RuntimeError: Unable to initialize backend 'tpu': UNKNOWN: TPU initialization failed:"
    " open(/dev/vfio/0): Operation not permitted: Operation not permitted;"
    " Couldn't open iommu group /dev/vfio/0",
    "RuntimeError: Bad StatusOr access: UNKNOWN: TPU initialization failed: open(/dev/accel0):"
    " Operation not permitted: Operation not permitted; Couldn't open device: /dev/accel0",
    "RuntimeError: TPU initialization failed: Couldn't wrap fd for vfio container: Bad descriptor",
    "RuntimeError: TPU initialization failed: Couldn't mmap: Resource temporarily unavailable.",
    "RuntimeError: UNKNOWN: TPU initialization failed: Failed to connect to [::]:8353",
    "jax.errors.JaxRuntimeError: UNKNOWN: TPU initialization failed: No TPU Platform available",
)
#: More rights mend neither a chip that another process holds, nor what fails before that.
OTHER_FAILURES = (
    "RuntimeError: TPU initialization failed: open(/dev/vfio/0): Device or resource busy: Device or"
    " resource busy; Couldn't open iommu group /dev/vfio/0",
    "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error",
    'INFO: 10.0.0.9:1 - "GET /open(/dev/vfio/0):%20Operation not permitted HTTP/1.1" 401',
    f'\x1b[32mINFO\x1b[0m: 10.0.0.9:1 - "GET /{REFUSED_DEVICES[0]}{"x" * 9000} HTTP/1.1" 401',
    # A config.json whose hidden_act is libtpu's words.
    "(EngineCore pid=7) ERROR 11-28 10:00:00 [core.py:1] ValueError: Unsupported activation:"
    " Failed to get TPU metadata. Only silu is supported for now.",
    f"ValueError: Unsupported activation: {REFUSED_DEVICES[0]}. Only silu is supported for now.",
    f"api_server.py: error: unrecognized arguments: --x\n{REFUSED_DEVICES[0]}",
    "Killed",
)


def dies_of(host: StartupHost, words: str) -> None:
    """Let the container of ``host`` die with ``words`` in its log until it is replaced."""
    crashes = host.mark("crashes")
    (host.directory / "container.log").write_text(f"(EngineCore pid=7) {words}\n")
    docker = host.directory / "bin" / "docker"
    host.command("docker", docker.read_text().replace("rm) ", f"rm) rm -f {crashes}; "))


@pytest.mark.parametrize("words", REFUSED_DEVICES)
def test_chips_that_may_not_be_used_are_recognised(words: str, tmp_path: Path) -> None:
    """S13: by libtpu's words, behind what vLLM writes before them."""
    lines = server_lines(f"(EngineCore pid=7) ERROR 11-28 10:00:00 [core.py:1] {words}\n", tmp_path)
    found = failure(lines)
    assert found is not None
    assert (found[0], found[2]) == ("device", words)


@pytest.mark.parametrize("words", OTHER_FAILURES)
def test_no_other_failure_is_taken_for_that(words: str, tmp_path: Path) -> None:
    """S13: neither is what a client has written into the log."""
    found = failure(server_lines(words, tmp_path))
    assert found is None or found[0] != "device"


def test_nothing_in_its_log_gives_a_server_more_rights(host: StartupHost) -> None:
    """S13: a server that may not use its chips ends the boot; the error says what would allow it,
    on a condition: the model's files can have written those words, as here a config.json whose
    hidden_act has lines that look like an exception of libtpu."""
    dies_of(
        host,
        f"ValueError: Unsupported activation: x\n{REFUSED_DEVICES[0]}\n. Only silu is supported.",
    )
    assert host.run().status != 0
    (words,) = runs(host)
    assert "--privileged" not in words
    assert host.cloud.last("isolation") == "isolated"
    assert host.cloud.last("error").startswith(
        "container-died: the server died with status 2 of its device (if you trust the model's"
        " files, tpuflex:serving.isolation: none gives the server all rights on the host): "
    )


def test_a_server_with_all_rights_is_not_advised_to_take_them(host: StartupHost) -> None:
    """With isolation: none, a server that may not use its chips has that remedy already."""
    isolation(host, "none")
    dies_of(host, REFUSED_DEVICES[0])
    assert host.run().status != 0
    assert "of its device (it has all rights on the host): " in host.cloud.last("error")


@pytest.mark.parametrize(
    "line", ["/dev/accel" * 8000, 'GET " - "x ' * 22000, "KeyError: " * 10000, "(" + "a" * 90000]
)
def test_a_long_line_is_searched_in_its_ends_only(line: str, tmp_path: Path) -> None:
    """A search takes the square of a line's length: minutes, for what a client may write."""
    (short,) = server_lines(line, tmp_path)
    assert len(short) < 2100
    assert (short[:900], short[-900:]) == (line.strip()[:900], line.strip()[-900:])


@pytest.mark.parametrize("control", ["\x1b[0m", "\x1b]0;title\x07", "\0", "\b"])
def test_a_secret_is_removed_also_where_controls_split_it(control: str, tmp_path: Path) -> None:
    """Colours and other controls are removed before secrets are looked for."""
    (tmp_path / "key").write_text("sk-abcdefgh\n")
    assert server_lines(f"y sk-abc{control}defgh", tmp_path) == ["y [removed]"]


def test_the_routes_that_a_server_lists_are_no_cause_of_its_end(tmp_path: Path) -> None:
    """A server that is killed while idle wrote its routes last: they are left out of the reason."""
    place = "(APIServer pid=7) INFO 11-28 10:00:00 [launcher.py:195]"
    log = f"loaded\n{place} Available routes are:\n{place} Route: /health, Methods: GET\n"

    assert server_lines(log, tmp_path) == ["loaded"]


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_a_failure_is_reported_by_its_kind(log: Path, tmp_path: Path) -> None:
    """Logs of the real vLLM 0.32.0 on a CPU: arguments, configuration, weights and tokenizer."""
    lines = server_lines(log.read_text(), tmp_path)
    found = failure(lines)
    assert found is not None
    kind, _, cause = found
    assert kind == log.stem.partition("-")[0]
    assert last_lines(lines, 15).count(cause[:60]) == 1
    assert last_lines(lines, 1) == cause


def test_the_kind_of_a_failure_stands_before_its_log(host: StartupHost) -> None:
    """The error names the kind, what helps, and the cause that is far above the last lines."""
    words = (LOGS / "weights-shard-missing.log").read_text() + "    more of a traceback\n" * 30
    dies_of(host, words)
    assert host.run().status != 0
    assert host.cloud.last("error").startswith(
        "container-died: the server died with status 2 of its weights (push all weights of the"
        " model that config.json describes): FileNotFoundError: Weight files referenced in index"
    )


@pytest.mark.parametrize("cause", ["devices", "iptables"])
def test_what_the_host_cannot_do_is_said(host: StartupHost, cause: str) -> None:
    """S13: without devices or rules there is no isolation, and none is claimed."""
    if cause == "devices":
        host.devices("vfio/vfio")
    else:
        host.mark("iptables-broken")
    told = host.functions(START)
    (words,) = runs(host)
    assert "--privileged" in words
    assert values(words, "--network") == ["host"]
    assert words[words.index("--host") + 1] == "127.0.0.1"
    assert "\nisolation=privileged: " in told
    assert told.startswith("detail=the server cannot run isolated and is started with all rights")


@pytest.mark.parametrize(
    "problem", ["Bind for 10.0.0.2:8000 failed: port is already allocated", "exec: no /bin/bash"]
)
def test_a_container_that_docker_cannot_start_gets_no_rights(
    host: StartupHost, problem: str
) -> None:
    """S13: what docker refuses for another reason than devices and network is reported as that."""
    docker = (host.directory / "bin" / "docker").read_text()
    refuse = f"run)\n    echo '{problem}' >&2\n    exit 125\n"
    host.command("docker", docker.replace("run)\n", refuse))
    told = host.functions(START)
    (words,) = runs(host)
    assert "--privileged" not in words
    assert told == f"container: docker cannot start the container: {problem}"


@pytest.mark.parametrize("cause", ["devices", "iptables"])
def test_required_isolation_never_ends_in_privileges(host: StartupHost, cause: str) -> None:
    """S13: with isolation: required, a server that cannot run isolated does not run."""
    isolation(host, "required")
    if cause == "devices":
        host.devices()
    else:
        host.mark("iptables-broken")
    told = host.functions(START)
    assert told.startswith("isolation: the server cannot run isolated: ")
    assert not [words for words in runs(host) if "--privileged" in words]


def test_privileges_can_be_asked_for(host: StartupHost) -> None:
    """With isolation: none the container is privileged from the start, and that is reported, also
    by a second run, which leaves it alone."""
    isolation(host, "none")
    for _ in range(2):
        assert host.run().status == 0
        (words,) = runs(host)
        assert "--privileged" in words
        assert host.cloud.last("isolation").startswith("privileged: the stack file")
