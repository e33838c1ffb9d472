"""What people have: scripts, containers and tasks that start vLLM, each as the settings it says."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from tpuflex.errors import SettingsError
from tpuflex.scaffold.foreign_file import translated_file
from tpuflex.scaffold.translation import Translation

SERVED: Mapping[str, object] = {"model.name": "a/b", "serving.flags.max_num_seqs": 8}
SCRIPTS = {
    "continued lines": "vllm \\\n  serve a/b \\\n  --max-num-seqs 8\n",
    "a backslash at the end": "vllm serve a/b --max-num-seqs 8 \\",
    "blanks behind a backslash": "vllm serve a/b \\  \n --max-num-seqs 8",
    "a comment behind a backslash": "vllm serve a/b \\ # the model\n --max-num-seqs 8",
    "a flag that is commented out": "vllm serve a/b \\\n  # --dtype auto \\\n  --max-num-seqs 8",
    "a comment at the end": "vllm serve a/b --max-num-seqs 8 \\\n  # more here\necho",
    "lines of Windows": "vllm serve a/b \\\r\n --max-num-seqs 8\r\n",
    "a prompt": "$ vllm serve a/b --max-num-seqs 8",
    "another path": "/opt/venv/bin/vllm serve a/b --max-num-seqs=8",
    "the older module": "python3 -m vllm.entrypoints.openai.api_server --model=a/b "
    "--max-num-seqs 8",
    "redirections": "nohup vllm serve a/b --max-num-seqs 8 > log 2>&1 < /dev/null &",
    "a pipeline": "vllm serve a/b --max-num-seqs 8 2>&1 | tee log",
    "what it is started through": "sudo -E env A_B=1 nice -n 5 vllm serve a/b --max-num-seqs 8",
    "a chain": "set -e; cd /x && source .venv/bin/activate && exec vllm serve a/b --max-num-seqs 8",
    "vLLM installed before": "pip install -U vllm\nvllm serve a/b --max-num-seqs 8",
    "clients behind it": "vllm serve a/b --max-num-seqs 8 &\nsleep 9; curl localhost/health",
    "a shell within": "tmux new -d -s v 'vllm serve a/b --max-num-seqs 8'",
    "another machine": 'gcloud compute ssh t --command="vllm serve a/b --max-num-seqs 8"',
    "a default": "vllm serve ${1:-a/b} --max-num-seqs ${SEQS:-8}",
    "variables": "M=a/b\nexport SEQS='8'\nvllm serve $M --max-num-seqs ${SEQS} \"$@\"",
    "an array": 'ARGS=(\n  --max-num-seqs 8 # few\n)\nvllm serve a/b "${ARGS[@]}"',
    "an array that grows": 'A=(a/b)\nA+=(--max-num-seqs)\nA+=(8)\nvllm serve "${A[@]}"',
    "a text that grows": "A=a/b\nA+=' --max-num-seqs'\nvllm serve $A 8",
    "words in a variable": "ARGS='--max-num-seqs 8'\nvllm serve a/b $ARGS",
    "conditions": 'if [[ -z "$X" && a < b ]]; then\n  echo no; exit 1\nfi\n'
    "case $1 in a|b) echo;; *) ;; esac\nfor i in 1 2; do echo $i; done\n"
    "vllm serve a/b --max-num-seqs 8",
    "a function": "start() {\n  vllm serve a/b --max-num-seqs 8\n}\nstart",
    "a here-document": "cat <<'E' > x\nvllm serve c/d\nE\nvllm serve a/b --max-num-seqs 8",
    "docker": "docker run --gpus all -v ~/.cache:/home/vllm/.cache -p8000:8000 --ipc=host \\\n"
    "  vllm/vllm-openai:latest --model a/b --max-num-seqs 8",
    "docker with a shell": "docker run --rm --entrypoint bash vllm/vllm-tpu:nightly -lc "
    "'exec vllm serve a/b --max-num-seqs 8'",
    "PowerShell": "docker run `\n  --rm `\n  vllm/vllm-openai `\n  --model a/b --max-num-seqs 8",
    "flags in a file": "model: a/b\nmax-num-seqs: 8\nhost: 0.0.0.0\n",
}
DEPLOYMENT = """
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: d}
    spec:
      replicas: 1
      template:
        spec:
          containers:
            - name: vllm
              image: vllm/vllm-openai:latest
"""
POD = """
    apiVersion: v1
    kind: Pod
    spec:
      containers:
        - image: vllm/vllm-tpu:nightly
"""
TASKS = {
    "a flag and its value as one argument": f"""{DEPLOYMENT}
              args: ["--model a/b", "--max-num-seqs 8"]
""",
    "several manifests": f"""
    apiVersion: v1
    kind: Service
    metadata: {{name: s}}
    ---{DEPLOYMENT}
              command: [vllm, serve, a/b]
              args: ["--max-num-seqs", "8"]
    ---
    apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {{name: c}}
""",
    "a list of manifests": """
    apiVersion: v1
    kind: List
    items:
      - apiVersion: batch/v1
        kind: Job
        spec: {template: {spec: {containers: [
          {image: vllm/vllm-openai, args: [a/b, --max-num-seqs=8]}]}}}
""",
    "variables of a pod": f"""{POD}
          env: [{{name: MODEL, value: a/b}}, {{name: SEQS, value: "8"}}]
          command: [/bin/sh, -c]
          args: ["vllm serve $MODEL --max-num-seqs $(SEQS)"]
""",
    "compose": """
    services:
      vllm:
        image: vllm/vllm-openai:latest
        ports: ["8000:8000"]
        environment: [HF_TOKEN=$HF_TOKEN]
        command: >
          --model ${MODEL:-a/b}
          --max-num-seqs 8
""",
    "dstack": """
    type: service
    image: vllm/vllm-openai:latest
    env: [HF_TOKEN, MODEL=a/b]
    commands:
      - uv pip install vllm
      - vllm serve $MODEL
        --max-num-seqs 8
        --tensor-parallel-size $DSTACK_GPUS_NUM
    port: 8000
    resources: {gpu: 24GB}
""",
    "skypilot": """
    resources: {accelerators: "L4:1"}
    envs: {MODEL: a/b, HF_TOKEN: null}
    setup: pip install vllm
    run: |
      vllm serve $MODEL --max-num-seqs 8 \\
        --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE 2>&1 | tee log
""",
    "the production stack": """
    servingEngineSpec:
      modelSpec:
        - name: m
          repository: vllm/vllm-openai
          tag: latest
          modelURL: a/b
          replicaCount: 1
          requestGPU: 1
          vllmConfig: {v1: 1, maxNumSeqs: 8, extraArgs: [--disable-log-requests]}
""",
    "values with a shell": 'command: ["/bin/sh", "-c", "vllm serve a/b --max-num-seqs 8"]',
}


def translate(tmp_path: Path, text: str, given: Mapping[str, str] | None = None) -> Translation:
    """What a file with ``text`` says."""
    file = tmp_path / "file"
    file.write_text(textwrap.dedent(text).lstrip("\n"))
    return translated_file(file, given=given)


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts(tmp_path: Path, name: str) -> None:
    """A script is read as a shell reads it: nothing of the server is lost or refused."""
    found = translate(tmp_path, SCRIPTS[name])

    assert {k: v for k, v in found.settings.items() if k != "serving.env.A_B"} == SERVED
    assert not found.refused
    assert not found.unset


@pytest.mark.parametrize("name", TASKS)
def test_tasks(tmp_path: Path, name: str) -> None:
    """The format is known by its structure, and its keys are carried over or named."""
    found = translate(tmp_path, TASKS[name])

    assert found.settings == SERVED
    assert not found.refused
    assert not found.unset


@pytest.mark.parametrize(
    ("text", "accelerator"),
    [
        ("type: task\ncommands: [vllm serve a/b]\nresources: {gpu: v5litepod-8}", "v5litepod-8"),
        ("run: vllm serve a/b\nresources: {accelerators: tpu-v6e-4}", "v6e-4"),
        ("run: vllm serve a/b\nresources: {accelerators: {tpu-v6e-8: 1}}", "v6e-8"),
        (
            f"{POD}          args: [--model, a/b]\n"
            "      nodeSelector:\n"
            "        cloud.google.com/gke-tpu-accelerator: tpu-v6e-slice\n"
            "        cloud.google.com/gke-tpu-topology: 2x4\n",
            "v6e-8",
        ),
    ],
)
def test_chips(tmp_path: Path, text: str, accelerator: str) -> None:
    """A task that asks for TPU chips chooses the slice."""
    assert translate(tmp_path, text).settings["slice.accelerator_type"] == accelerator


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("services: {web: {image: nginx}}", "no service that starts vLLM: there is web"),
        ("apiVersion: v1\nkind: Service\n", "no container that starts vLLM: there is Service"),
        ("type: task\ncommands: [python train.py]", "it has python"),
        ("run: python train.py", "has no `vllm serve`"),
        (
            "services: {a: {image: vllm/vllm-tpu}, b: {image: vllm/vllm-tpu}}",
            r"start 2 servers \(a, b\)",
        ),
        ("servingEngineSpec: {modelSpec: [{}, {}]}", "names 2 models"),
        ("vllm serve a/b \\\n  -tp 4\n  --dtype auto", "--dtype in line 3, on its own"),
        ("a: 1\nb: 2", "is of no format that tpuflex reads: it has a, b"),
        ("image: {{ .Values.image }}\nargs: {{- x }}", "a template of Helm"),
    ],
)
def test_files_without_one_server(tmp_path: Path, text: str, problem: str) -> None:
    """They are refused, with what was looked for and what there is."""
    with pytest.raises(SettingsError, match=problem):
        translate(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "variable", "key", "line"),
    [
        ("vllm serve a/b --tensor-parallel-size $TP", "TP", "--tensor-parallel-size", 1),
        ("#\nvllm serve ${M} --dtype auto", "M", "MODEL", 2),
        ("vllm serve a/b $MORE", "MORE", "further flags", 1),
        ('export TP\nTP=$(nproc)\nvllm serve a/b -tp "$TP"', "TP", "-tp", 3),
        ("if true; then TP=4; fi\nvllm serve a/b -tp $TP", "TP", "-tp", 2),
        ("bash -c 'vllm serve a/b -tp $TP'", "TP", "-tp", 1),
        ("run: vllm serve a/b -tp $TP\nenvs: {TP: null}", "TP", "run: -tp", 0),
        (f"{POD}          args: [--model=$(M)]", "M", "args: --model", 0),
        (
            "services: {v: {image: vllm/vllm-tpu, command: '--model ${M}'}}",
            "M",
            "command: --model",
            0,
        ),
    ],
)
def test_variables_that_nothing_sets(
    tmp_path: Path, text: str, variable: str, key: str, line: int
) -> None:
    """They are found with their place and never guessed; a given value takes their place."""
    (use,) = translate(tmp_path, text).unset

    assert (use.variable, use.key, use.line) == (variable, key, line)
    given = "--seed=8" if variable == "MORE" else "8"
    assert not translate(tmp_path, text, {variable: given}).unset


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve a/b --api-key $KEY --host $HOST --download-dir $DIR",
        "docker run -p $PORT:8000 -v $HOME:/x -e HF_TOKEN=$HF_TOKEN vllm/vllm-tpu:x serve a/b",
        "cd $DIR; vllm serve a/b > $LOG",
    ],
)
def test_variables_that_make_no_difference(tmp_path: Path, command: str) -> None:
    """Nobody is asked for what is left out anyway, a secret least of all."""
    assert not translate(tmp_path, command).unset


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--enable-reasoning", "the reasoning parser turns it on"),
        ("--disable-log-requests", "not logged unless asked for"),
        ("--device tpu", "made for the chips"),
        ("--swap-space 16", "no swap space"),
        ("--num-scheduler-steps 8", "one scheduler"),
        ("--max-seq-len-to-capture 8192", "CUDA graphs"),
        ("--disable-custom-all-reduce", "about GPUs"),
        ("-O3", "which a TPU does not use"),
        ("--pipeline-parallel-size 1", "vLLM's default"),
        ("--host 0.0.0.0", "listens on the host's own address"),
        ("--no-enable-log-requests", "it is off"),
        ("--served-model-name a/b", "the model's own"),
    ],
)
def test_flags_that_make_no_difference(tmp_path: Path, flag: str, reason: str) -> None:
    """A flag that vLLM no longer has, or that changes nothing here, is left out and named."""
    found = translate(tmp_path, f"vllm serve a/b {flag}")

    assert found.settings == {"model.name": "a/b"}
    assert not found.refused
    (named,) = found.as_is
    assert reason in named.problem


@pytest.mark.parametrize(
    ("flag", "setting", "value"),
    [
        ("--limit-mm-per-prompt image:4", "limit_mm_per_prompt", {"image": 4}),
        ("--limit-mm-per-prompt image=4,audio=0", "limit_mm_per_prompt", {"image": 4, "audio": 0}),
        ("--dtype half", "dtype", "float16"),
    ],
)
def test_older_spellings(tmp_path: Path, flag: str, setting: str, value: object) -> None:
    """What vLLM spelled otherwise is written as it is spelled now."""
    found = translate(tmp_path, f"vllm serve a/b {flag}")

    assert found.settings[f"serving.flags.{setting}"] == value


@pytest.mark.parametrize(
    ("variable", "reason"),
    [
        ("VLLM_XLA_CACHE_PATH=/dev/shm/x", "tpuflex:serving.compile_cache"),
        ("JAX_COMPILATION_CACHE_DIR=/x", "tpuflex:serving.compile_cache"),
        ("HF_HOME=/dev/shm", "downloads nothing"),
        ("CUDA_VISIBLE_DEVICES=0", "about GPUs"),
        ("VLLM_USE_V1=1", "no other engine"),
    ],
)
def test_variables_of_the_server(tmp_path: Path, variable: str, reason: str) -> None:
    """What a server of tpuflex has already is named with what takes its place."""
    for command in (
        f"{variable} vllm serve a/b",
        f"export {variable}\nvllm serve a/b",
        f"docker run -e {variable} vllm/vllm-tpu:nightly --model a/b",
    ):
        found = translate(tmp_path, command)
        assert found.settings == {"model.name": "a/b"}
        assert any(reason in each.problem for each in found.as_is)
        assert not found.refused


def test_variables_of_the_shell(tmp_path: Path) -> None:
    """vLLM's own are carried over; those of other programs are named."""
    found = translate(tmp_path, "export VLLM_HTTP_TIMEOUT_KEEP_ALIVE=9 MY_DIR=/x\nvllm serve a/b")

    assert found.settings["serving.env.VLLM_HTTP_TIMEOUT_KEEP_ALIVE"] == "9"
    assert [str(each) for each in found.as_is] == ["export MY_DIR: vLLM does not read it."]


@pytest.mark.parametrize("option", ["-e VLLM_X=1", "-eVLLM_X=1", "--env=VLLM_X=1", "-e VLLM_X"])
def test_variables_of_a_container(tmp_path: Path, option: str) -> None:
    """All spellings of docker; without a value it is the shell's, and a secret is refused."""
    command = f"docker run {option} -e WANDB_KEY=xyz vllm/vllm-tpu:nightly a/b"
    found = translate(tmp_path, command, {"VLLM_X": "1"})

    assert found.settings == {"model.name": "a/b", "serving.env.VLLM_X": "1"}
    assert [each.key for each in found.refused] == ["-e WANDB_KEY"]


def test_flags_that_vllm_does_not_take(tmp_path: Path) -> None:
    """A flag that it does not have, and a value that may not be passed on, are refused as such."""
    found = translate(tmp_path, "vllm serve a/b --foo 3 --uvicorn-log-level debug")

    first, second = found.refused
    assert first.problem.endswith('has no flag "--foo" and would not start')
    assert second.problem == '"debug" is no value of --uvicorn-log-level'


def test_a_directory_is_no_model(tmp_path: Path) -> None:
    """Where that server had its weights is not taken for the model's name."""
    found = translate(tmp_path, "vllm serve /models/x --max-num-seqs 8")

    assert "model.name" not in found.settings
    assert "--weights DIR" in found.as_is[0].problem


SECRET = "hf_aBcDeFgHiJkLmNoP"


@pytest.mark.parametrize(
    "text",
    [
        f"git clone https://user:{SECRET}@github.com/a/b\nvllm serve a/b",
        f"sshpass -p{SECRET} scp x y\nmytool -p {SECRET}\n{SECRET} x\nvllm serve a/b",
        f"docker run -u {SECRET} --log-opt splunk-token={SECRET} -e URL=postgres://u:{SECRET}@h/d"
        f' vllm/vllm-openai --model a/b --hf-overrides \'{{"auth":"{SECRET}"}}\'',
        f"vllm serve a/b {SECRET}",
        f"vllm serve s3://{SECRET}@b/c",
        f"vllm serve a/b --seed 1\nwget --header 'X: {SECRET}' x",
        f"{SECRET} serve a/b",
        f"docker run --{SECRET} vllm/vllm-openai --model a/b",
        f"services: {{{SECRET}: {{image: x}}, other: {{image: y}}}}",
        f"{SECRET}: 1\nother: 2",
    ],
)
def test_no_secret_of_a_file_is_shown_or_written(tmp_path: Path, text: str) -> None:
    """Neither in a setting, nor in what is said of the file."""
    try:
        said = str(translate(tmp_path, text))
    except SettingsError as error:
        said = str(error)

    assert SECRET not in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"A={'x' * 50_000}\necho {'$A' * 200}\nvllm serve a/b", "into more than"),
        (f"echo {'${A:-' * 200}x{'}' * 200}\nvllm serve a/b", "nested too deeply"),
    ],
)
def test_a_script_that_grows_without_end_is_refused(
    tmp_path: Path, text: str, problem: str
) -> None:
    """What a small file makes of itself is bounded."""
    with pytest.raises(SettingsError, match=problem):
        translate(tmp_path, text)


def test_a_here_document_ends_at_its_line(tmp_path: Path) -> None:
    """Also where its end is an empty line behind many tabs."""
    tabs = "\t" * 50_000
    found = translate(tmp_path, f"cat <<''\n{tabs}x\n\nvllm serve a/b")

    assert found.settings["model.name"] == "a/b"


def test_what_else_runs_is_refused(tmp_path: Path) -> None:
    """What changes the server before it starts, or stands beside it, is refused by name."""
    script = translate(tmp_path, "pip install git+https://x/y\npython patch.py\nvllm serve a/b")
    assert [each.key for each in script.refused] == ["pip", "python"]

    command = "wandb login abcd\nrun --token=abcd x\nsource env.sh\nconda install x\nvllm serve a/b"
    keys = [each.key for each in translate(tmp_path, command).refused]
    assert keys == ["wandb", "run", "source", "conda"]

    pod = translate(
        tmp_path, f"{POD}          args: [a/b]\n        - {{name: proxy, image: envoy}}\n"
    )
    assert [each.key for each in pod.refused] == ["container proxy"]

    service = translate(tmp_path, "run: vllm serve a/b\nservice: {replicas: 2}\nnum_nodes: 2")
    assert [each.key for each in service.refused] == ["service", "num_nodes"]
