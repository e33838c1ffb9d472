"""The host's reading of its configuration: the real startup script, up to `docker run`.

The script's own functions read the document and make the container's command line; docker, the
metadata server and the guest attributes are functions that record.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from reliability.hostile_stacks import CANARY
from tpuflex.boot.document import BootConfig
from tpuflex.boot.metadata import startup_script

#: Ends the script, so that it can be given something else to do.
_MAIN = 'main "$@"'

_DRIVER = """
report() { :; }
log() { :; }
detail() { :; }
fail() { printf '%s: %s' "$1" "$2" >"$CASE.refused"; exit 1; }
metadata() {
    [[ $1 == */ip ]] || return 1
    printf 127.0.0.1 >"$2"
}
metadata_config() { cp "$CASE" "$STATE_DIR/config.json"; }
docker() { printf '%s\\0' "$@" >"$CASE.words"; }
mkdir -p "$STATE_DIR" "$MEMORY_DIR" "$GUARD_DIR"
: >"$STATE_DIR/manifest.json"
: >"$GUARD_DIR/tpuflex_guard.py"
export WEIGHTS_DIR="$MEMORY_DIR/weights/x"
for CASE in "$@"; do
    (
        trap - ERR
        read_config
        template=$(setting serving.chat_template)
        if [[ -n $template ]]; then
            mkdir -p "$WEIGHTS_DIR/${template%/*}" && : >"$WEIGHTS_DIR/$template"
        fi
        run_container 127.0.0.1 --network host
    ) || :
done
"""


class HostileHost:
    """A directory in which the script runs, and in which a shell that is fooled leaves a file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._script = directory / "script"
        script = startup_script().rstrip()
        if not script.endswith(_MAIN):
            raise AssertionError(f"the startup script does not end with {_MAIN}")
        self._script.write_text(script.removesuffix(_MAIN) + _DRIVER)

    def problems(self, configs: Sequence[BootConfig]) -> list[str]:
        """What is wrong with how the host reads each of ``configs``; empty where nothing is."""
        cases = self._directory / "cases"
        shutil.rmtree(cases, ignore_errors=True)
        cases.mkdir()
        files = [cases / f"{number}.json" for number in range(len(configs))]
        for file, config in zip(files, configs, strict=True):
            file.write_text(config.to_json())
        done = subprocess.run(
            ["/bin/bash", str(self._script), *map(str, files)],
            cwd=cases,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
                "LANG": "C.UTF-8",
                "HOME": str(cases),
                "TPUFLEX_ROOT": str(self._directory / "root"),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=600,
            check=False,
        )
        found = [self._problem(file, config) for file, config in zip(files, configs, strict=True)]
        if fired := canaries(self._directory):
            found = [each or f"a shell ran a value: {fired[0]}" for each in found]
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace")[-300:]
            found = [each or f"the script ended with {done.returncode}: {said}" for each in found]
        return found

    def _problem(self, file: Path, config: BootConfig) -> str:
        refused = file.with_name(f"{file.name}.refused")
        if refused.exists():
            return f"the host refuses what the settings accepted: {refused.read_text()[:300]}"
        recorded = file.with_name(f"{file.name}.words")
        if not recorded.exists():
            return "the host started no container"
        words = recorded.read_bytes().decode().split("\0")[:-1]
        weights = str(self._directory / "root/run/tpuflex/memory/weights/x")
        return _difference(words, config, weights)


def canaries(directory: Path) -> list[str]:
    """The files that a shell has made out of a value."""
    found = [path for path in directory.rglob("*") if CANARY in path.name]
    return [str(path.relative_to(directory)) for path in found]


def _difference(words: list[str], config: BootConfig, weights: str) -> str:
    """What differs between the words that docker got and those that the configuration means."""
    serving, container = config.serving, config.container
    expected = [
        *("--model", weights, "--served-model-name", serving.model_name),
        *("--host", "127.0.0.1", "--port", str(serving.port), *serving.args),
    ]
    if serving.chat_template:
        expected += ["--chat-template", f"{weights}/{serving.chat_template}"]
    end = words[words.index(container.image) + 3 :]
    if end != expected:
        return f"the server's arguments differ: {json.dumps(end)[:300]}"
    options = words[: words.index(container.image)]
    given = [options[place + 1] for place, word in enumerate(options) if word == "--env"]
    wanted = [f"{name}={value}" for name, value in container.env.items()]
    # The document has sorted keys.
    return "" if given == sorted(wanted) else f"the environment differs: {given[:3]}"
