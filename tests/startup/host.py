"""A host for the startup script: a directory as its root, a docker that only records, and one
server for all its requests. bash, curl and python3 are real."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.startup.cloud import PREFIX, PROGRAMS_VERSION, VERSION, Cloud, Handler, Server
from tpuflex.boot.metadata import startup_script
from tpuflex.catalog.vllm_version import SECURITY_FLOOR
from tpuflex.catalog.weight_formats import allowed_patterns

_DOCKER = r"""#!/bin/bash
# Records each call as one line of %q words; a container is the file container.json.
here=${0%/*}/..
printf '%q ' "$@" >>"$here/docker.calls"
printf '\n' >>"$here/docker.calls"
[[ ! -e $here/no-docker ]] || exit 127
case $1 in
--version) ;;
info)
    [[ ! -e $here/docker-down ]] && exit
    echo 'Cannot connect to the Docker daemon' >&2
    exit 1
    ;;
image)
    [[ -e $here/image ]] && exit || exit 1
    ;;
pull)
    printf '%s\n' $$ >"$here/pulling"
    while [[ -e $here/registry-slow ]]; do sleep 0.02; done
    # What called docker is killed, as by a kernel without memory.
    [[ ! -e $here/pull-kills ]] || kill -KILL $PPID
    [[ -z ${DOCKER_CONFIG:-} ]] || cp "$DOCKER_CONFIG/config.json" "$here/pull.config"
    [[ ! -e $here/registry-down ]] && : >"$here/image" && exit
    grep . "$here/registry-down" >&2 || echo 'no route to registry' >&2
    exit 1
    ;;
network) [[ $2 != inspect || -e $here/network ]] && : >"$here/network" ;;
inspect) [[ -e $here/container.json ]] && cat "$here/container.json" ;;
logs) cat "$here/container.log" 2>/dev/null ;;
rm) rm -f "$here/container.json" ;;
stop) sed -i 's/"Status": "[a-z]*"/"Status": "exited"/' "$here/container.json" ;;
restart) sed -i 's/"Status": "[a-z]*"/"Status": "running"/' "$here/container.json" ;;
run)
    for word in "$@"; do
        case $word in
        tpuflex.spec=*) spec=${word#tpuflex.spec=} ;;
        VLLM_XLA_CACHE_PATH=*) cache=${word#*=} ;;
        esac
    done
    # A server compiles each program that it does not find.
    for program in $(cd "$here/programs" 2>/dev/null && find . -type f); do
        [[ -z ${cache:-} || ! -e $cache/$program ]] || continue
        printf '%s\n' "${program#./}" >>"$here/compiled"
        [[ -n ${cache:-} ]] || continue
        mkdir -p "$cache/${program%/*}"
        cp "$here/programs/$program" "$cache/$program"
    done
    [[ ! -e $here/server ]] || "$here/server" "${cache:-}" 2>>"$here/server.log" || exit 1
    status=running restarts=0
    [[ ! -e $here/crashes ]] || { status=restarting restarts=3; }
    printf '[{"RestartCount": %d, "State": {"Status": "%s", "ExitCode": 2, "StartedAt": "%s"},' \
        "$restarts" "$status" "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" >"$here/container.new"
    printf ' "Config": {"Labels": {"tpuflex.spec": "%s"}}}]\n' "$spec" >>"$here/container.new"
    # There whole or not at all, as docker's own record.
    mv "$here/container.new" "$here/container.json"
    ;;
esac
"""

#: Never the machine's own.
_APT_GET = r"""#!/bin/bash
here=${0%/*}/..
printf '%s\n' "$*" >>"$here/apt.calls"
if [[ -s $here/no-mirror ]]; then
    cat "$here/no-mirror" >&2
    exit 100
fi
if [[ -e $here/no-mirror ]]; then
    printf 'Reading\nE: Unable to locate package docker.io\n' >&2
    exit 100
fi
[[ $* != *" install "* ]] || rm -f "$here/no-docker"
"""

_IPTABLES = r"""#!/bin/bash
# Records each rule that is set.
here=${0%/*}/..
[[ $3 != --check ]] || exit 1
[[ ! -e $here/iptables-broken ]] || exit 3
printf '%s\n' "${*:3}" >>"$here/iptables.calls"
"""

#: What outlives the script is not started, but for those tests that are about it.
_SETSID = """#!/bin/bash
printf '%q ' "$@" >>"${0%/*}/../setsid.calls"
"""

_SLEEP = """#!/bin/bash
printf '%s\\n' "$1" >>"${0%/*}/../slept"
exec sleep 0.01
"""


#: At a variable that is not set, bash ends a script without its ERR trap.
UNSET = ': "$nothing_of_that_name"'

#: Values that do something where a shell evaluates, splits or expands them.
HOSTILE = {
    f"HOSTILE_{number}": value
    for number, value in enumerate(
        (
            "two words; $(touch injected) 'quoted'",
            "`touch injected`",
            "'; touch injected; '",
            '"; touch injected; "',
            "${IFS}touch${IFS}injected",
            "a[$(touch injected)]",
            "\\$(touch injected)",
            "*",
            "~/x",
            "%s%n",
            "--privileged",
        )
    )
}


@dataclass(frozen=True)
class StartupRun:
    """How a run of the script ended, and what it printed."""

    status: int
    output: str


class StartupHost:
    """One host on which the startup script can be run, even several times."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.root = directory / "root"
        self.cloud = Cloud()
        handler = type("Handler", (Handler,), {"cloud": self.cloud})
        handler.container = directory / "container.json"  # type: ignore[attr-defined]
        self._server = Server(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        for name, text in {
            "apt-get": _APT_GET,
            "docker": _DOCKER,
            "iptables": _IPTABLES,
            "setsid": _SETSID,
            "sleep-stub": _SLEEP,
        }.items():
            self.command(name, text)
        (directory / "bin" / "python3").symlink_to(sys.executable)
        self.script = directory / "startup-script"
        self.script.write_text(startup_script())
        self.cloud.config = self.config()
        self.devices("vfio/vfio", "vfio/0")

    def close(self) -> None:
        """End the watch, if there is one, and stop the server."""
        self.end_watch()
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        """The server's base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def command(self, name: str, text: str) -> None:
        """Put an executable on the host's PATH."""
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def inject(self, after: str, command: str) -> None:
        """Let the startup script run ``command`` after its one line ``after``."""
        before, line, rest = self.script.read_text().partition(f"\n{after}\n")
        if not line or line in rest:
            raise ValueError(f"the script has not one line {after!r}")
        self.script.write_text(f"{before}{line}{command}\n{rest}")

    def devices(self, *names: str) -> None:
        """Let these, and no others, be the devices of the host, below /dev."""
        shutil.rmtree(self.root / "dev", ignore_errors=True)
        for name in names:
            device = self.root / "dev" / name
            device.parent.mkdir(parents=True, exist_ok=True)
            device.symlink_to("/dev/null")

    def mark(self, name: str) -> Path:
        """A file that changes how the docker of this host behaves."""
        path = self.directory / name
        path.touch()
        return path

    def config(self, **changes: Any) -> dict[str, Any]:
        """A configuration for this host."""
        return {
            "schema": 1,
            "endpoint": {"project": "p", "stack": "dev", "name": "e"},
            "container": {
                "name": "vllm",
                "image": "registry/vllm@sha256:" + "ab" * 32,
                "shm_size": "1g",
                "isolation": "preferred",
                "egress": "none",
                "env": dict(HOSTILE),
            },
            "serving": {
                "model_name": "tiny",
                "port": self._server.server_address[1],
                "security_floor": SECURITY_FLOOR,
                "chat_template": "",
                "warmup_s": 0,
                "max_num_batched_tokens": 8192,
                "max_num_seqs": 256,
                "args": ["--dtype", "bfloat16", "--speculative-config", '{"a": "b c"}'],
            },
            "weights": {
                "bucket": "bucket-1",
                "prefix": PREFIX,
                "manifest": "MANIFEST.json",
                "formats": list(allowed_patterns()),
                "parallelism": 3,
                "expected_gbps": 0,
            },
            "compile_cache": {
                "mode": "bucket",
                "prefix": "compile-cache",
                "key": PROGRAMS_VERSION,
            },
            "secrets": [{"role": "api-key", "version": VERSION}],
            "timeouts": {"ready_s": 30, "secret_s": 20},
            "drain": {"run_s": 0, "drain_s": 600, "margin_s": 300},
            "monitoring": {"every_s": 60},
            "commands": {
                "weights": "tpuflex weights push --stack dev",
                "secrets": "tpuflex secrets ensure --stack dev",
            },
        } | changes

    def run(
        self, *, in_mount_namespace: bool = False, timeout: float = 60, **environment: str
    ) -> StartupRun:
        """Run the startup script to its end, where asked for with mounts that end with it.

        It may take at most ``timeout`` seconds.
        """
        apart = ["unshare", "--mount"] if in_mount_namespace else []
        process = self.start(*apart, **environment)
        try:
            output, _ = process.communicate(timeout=timeout)
        except BaseException:
            self.kill(process)
            raise
        return StartupRun(process.returncode, output)

    def start(self, *apart: str, **environment: str) -> subprocess.Popen[str]:
        """Begin a run of the startup script, in a process group of its own."""
        self.root.mkdir(exist_ok=True)
        return subprocess.Popen(
            [*apart, "/bin/bash", str(self.script)],
            env={**self._environment(), **environment},
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def functions(self, commands: str) -> str:
        """What ``commands`` print where the script's functions are known and nothing has begun.

        What makes a boot fail is printed, too, and ends them; no wait takes time.
        """
        for place in (self.memory("secrets"), self.root / "var" / "log" / "tpuflex"):
            place.mkdir(parents=True, exist_ok=True)
        driver = "fail() { printf '%s: %s' \"$@\"; exit 0; }\ndetail() { :; }\n" + commands
        done = subprocess.run(
            ["/bin/bash", "-s"],
            input=self.script.read_text().rstrip().removesuffix('main "$@"') + driver,
            env=self._environment(),
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.directory / 'bin'}:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TPUFLEX_ROOT": str(self.root),
            "TPUFLEX_SLEEP": str(self.directory / "bin" / "sleep-stub"),
            "GCE_METADATA_HOST": self.url.removeprefix("http://"),
            "STORAGE_EMULATOR_HOST": self.url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{self.url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{self.url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": f"{self.url}/",
            "TPUFLEX_REPORTS": "6000",
        }

    def kill(self, process: subprocess.Popen[str]) -> None:
        """End a run as a power failure would, with all of its processes."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def docker_calls(self, command: str) -> list[str]:
        """The docker calls that began with ``command``, quoted for the shell."""
        path = self.directory / "docker.calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.split(" ")[0] == command]

    def memory(self, *parts: str) -> Path:
        """A path below the host's in-memory directory."""
        return self.root.joinpath("run", "tpuflex", "memory", *parts)

    def weights(self) -> dict[str, bytes]:
        """The weight files that a server on this host would find."""
        (directory,) = self.memory("weights").iterdir()
        return {
            str(path.relative_to(directory)): path.read_bytes()
            for path in directory.rglob("*")
            if path.is_file()
        }

    def needs(self, programs: dict[str, bytes]) -> None:
        """Let the server of this host need these compiled programs."""
        for path, content in programs.items():
            file = self.directory / "programs" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def compiled(self) -> list[str]:
        """The programs that the server had to compile since this was last asked."""
        path = self.directory / "compiled"
        found = sorted(path.read_text().split()) if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def compile_cache(self, *parts: str) -> Path:
        """A path below what the host keeps of its one compile cache."""
        (kept,) = (self.root / "var" / "lib" / "tpuflex" / "compile-cache").iterdir()
        return kept.joinpath(*parts)

    def watched(self) -> None:
        """Let the script start what watches over the host after READY."""
        (self.directory / "bin" / "setsid").unlink()

    def watch_process(self) -> psutil.Process | None:
        """What watches over the host; None if nothing does."""
        lock = self.root / "run" / "tpuflex" / "watch.lock"
        with suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int(lock.read_text()))
            if str(self.root) in " ".join(process.cmdline()):
                return process
        return None

    def end_watch(self) -> None:
        """Kill what watches over the host."""
        process = self.watch_process()
        if process is not None:
            process.kill()
            psutil.wait_procs([process])

    def reboot(self) -> None:
        """Empty the memory, and leave a dead container."""
        self.end_watch()
        shutil.rmtree(self.root / "run")
        record = self.directory / "container.json"
        record.write_text(record.read_text().replace("running", "exited"))

    def slept(self) -> int:
        """Seconds that the script would have slept."""
        path = self.directory / "slept"
        return sum(map(int, path.read_text().split())) if path.exists() else 0

    def files_with(self, text: str) -> list[str]:
        """Files of the host that contain ``text``, relative to its directory."""
        found = []
        for folder, _, names in os.walk(self.directory):
            for name in names:
                path = Path(folder, name)
                if path.is_file() and not path.is_symlink() and text.encode() in path.read_bytes():
                    found.append(str(path.relative_to(self.directory)))
        return sorted(found)
