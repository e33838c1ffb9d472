"""Who types each line of shell in README and docs/: a test, or nobody here, and why.

One row for each line, as the page prints it, without its comment. A new line needs a row, and a
test that a row names has to type it: each of them ends with `untyped`.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from tests.docs.blocks import blocks

TUTORIAL = "tests/acceptance/guides/test_tutorial.py"
REHEARSAL = "tests/acceptance/guides/test_rehearsal.py"
PLAIN = "tests/acceptance/guides/test_readme_commands.py"
HOW_TO = "tests/acceptance/guides/test_how_to.py"

LOGIN = "a login at Google, in a browser"
INSTALLING = "the test's tpuflex is the checkout's; tests/wheel installs it as this does"
FETCHING = "fetches 16 GB from the internet, for which a rehearsal has a stand-in"
GITHUB = "changes a repository on GitHub"
SHARED = "a bucket of states that people share; embedded stacks keep theirs in the project"
MAKE = "what CI runs, and these tests with it"
ENDLESS = "runs until Ctrl-C, on a host that writes a log"
NO_LOG = f"a host that runs nothing has no log; {REHEARSAL} types it in a rehearsal"
PRIVATE = "goes through IAP to a private address, until Ctrl-C; tests/cli/test_host_access.py"
BENCHMARK = "needs a vLLM on this machine; tests/cli/test_client.py runs a command so"
SMALL_MACHINE = "tests/acceptance/weights/test_push_from_hub.py"
ACCOUNT = (
    "needs an account of others; tests/acceptance/engine/test_existing_account.py runs these steps"
)
AGENTS = "grants on a key of others; test_existing_key.py grants the same by the API"
PACK = "installs the pack's environment; AREA=policy of `make acceptance` does"
OWN_PROGRAM = (
    "works on a program of one's own; tests/acceptance/engine/test_own_program.py does the same"
)
ZONES = "asks a project on Google; tests/cli/test_zones.py types it at an embedded cloud"
LOAD = "needs an endpoint on chips; tests/acceptance/vllm/test_bench.py measures the dev stack so"
RECORDED = "records until Ctrl-C; tests/measure/test_record.py ends it so"
ARCHIVE = "reads what was recorded; tests/cli/test_capacity_command.py types it"
TABLE = "needs the table above it; tests/cli/test_bench_import.py types it"
RUNS = "needs files of runs; tests/cli/test_bench_files.py types it on such"
WATCHED = "draws until Ctrl-C; tests/deploy/test_project_status.py takes its looks"
MEASURED = "asks a vLLM that serves; tests/engine/test_end_to_end.py types the commands"
BENCHED = "puts load on a vLLM; tests/acceptance/vllm/test_bench.py measures the dev stack so"
DIAGNOSED = "needs an endpoint that fails; tests/diagnosis/test_command.py types it at such"
SERVED = "serves until Ctrl-C; tests/mcp_server/test_transports.py asks such a server"
GATEWAY = "runs until Ctrl-C, before endpoints; tests/gateway/test_run.py ends it so"
ASKED_GATEWAY = (
    "asks a gateway that runs; tests/acceptance/gateway/test_client_examples.py,"
    " tests/gateway/test_gateway_status.py"
)
RENDERED = (
    "needs the file above it; tests/cli/test_gateway_render.py and"
    " tests/alerts/test_gateway_rules.py have one"
)
HOSTS = "needs Pulumi's host of a language, which is no Go module; test_package.py"

_INIT = "tpuflex init --template first-proof --stack first-proof --project my-project-id"
_MIRROR = (
    "gcloud services enable artifactregistry.googleapis.com --project=my-project-id",
    "gcloud artifacts repositories create dockerhub --repository-format=docker"
    " --mode=remote-repository --remote-docker-repo=docker-hub --location=us-east5"
    " --project=my-project-id",
)
_FETCH = (
    "pip install huggingface_hub",
    "hf download google/gemma-4-E4B-it --local-dir models/gemma-4-E4B-it",
)
_REHEARSE = (
    "tpuflex emulator start --strict",
    'eval "$(tpuflex --stack first-proof emulator env --rehearse)"',
)
_CAPITAL = '"In one sentence, what is the capital of France?"'
_DOCTOR, _UP, _DOWN, _STATUS = (
    f"tpuflex --stack first-proof {command}" for command in ("doctor", "up", "down", "status")
)
_STOP = "tpuflex emulator stop"
_ASK = f"tpuflex --stack first-proof ask {_CAPITAL}"
_CLIENT_OF_IT = "tpuflex --stack first-proof client"
_CLIENT = (
    "tpuflex client",
    "tpuflex client --as curl > hello.sh",
    "tpuflex client -- sh hello.sh",
)

#: By page: the test that types them or the reason why none does, and the lines.
SHELL: dict[str, dict[str, tuple[str, ...]]] = {
    "README.md": {
        INSTALLING: (
            "python3 -m venv .venv && source .venv/bin/activate",
            "pip install '/path/to/tpuflex[embedded]'",
        ),
        TUTORIAL: (
            "tpuflex init --cloud embedded",
            "tpuflex up",
            f"tpuflex ask {_CAPITAL}",
            *_CLIENT,
            "tpuflex status",
            "tpuflex down",
            _INIT,
        ),
        MAKE: ("make demo", "make test"),
        MEASURED: ("tpuflex verify", "tpuflex metrics", "tpuflex alerts"),
        DIAGNOSED: ("tpuflex diagnose",),
        BENCHED: ("tpuflex bench run --points 1x64,4x64 --output 16",),
        LOGIN: (
            "gcloud auth login",
            "gcloud config set project my-project-id",
            "gcloud auth application-default login",
        ),
        REHEARSAL: (*_REHEARSE, _DOCTOR, *_MIRROR, _UP, _CLIENT_OF_IT, _ASK, _DOWN),
        FETCHING: (" && ".join(_FETCH),),
        HOW_TO: ("tpuflex recover", "tpuflex sweep"),
        NO_LOG: ("tpuflex logs",),
    },
    "docs/catalog.md": {
        HOW_TO: (
            "tpuflex catalog",
            "tpuflex catalog prices",
            "tpuflex catalog models google/gemma-4-31B-it",
        ),
        ZONES: ("tpuflex zones v6e-4 --project my-project-id",),
    },
    "docs/ci.md": {
        HOW_TO: ("tpuflex ci init --source OWNER/tpuflex@COMMIT",),
        "typed by the workflow's own steps: tests/acceptance/guides/test_preview_job.py": (
            "tpuflex preview --stack chat --base origin/main --markdown comment.md",
        ),
        GITHUB: (
            "gh variable set TPUFLEX_WORKLOAD_IDENTITY_PROVIDER --body projects/NUMBER/locations/"
            "global/workloadIdentityPools/tpuflex/providers/github",
            "gh variable set TPUFLEX_PREVIEW_SERVICE_ACCOUNT"
            " --body tpuflex-preview@PROJECT.iam.gserviceaccount.com",
            "gh variable set TPUFLEX_DEPLOY_SERVICE_ACCOUNT"
            " --body tpuflex-deploy@PROJECT.iam.gserviceaccount.com",
            "gh variable set PULUMI_BACKEND_URL --body gs://BUCKET",
        ),
    },
    "docs/cost.md": {
        HOW_TO: (
            "tpuflex --stack first-proof cost",
            "tpuflex --stack first-proof cost"
            ' --tokens-per-second 900 --basis "our load test" --busy 40',
        ),
    },
    "docs/how-to/README.md": {
        HOW_TO: ("tpuflex init --cloud embedded --stack chat",),
    },
    "docs/how-to/bring-your-own.md": {
        ACCOUNT: (
            "tpuflex --stack chat secrets ensure",
            "tpuflex --stack chat weights push",
            "tpuflex --stack chat doctor",
        ),
        AGENTS: (
            "gcloud storage service-agent --project=my-project-id",
            "gcloud beta services identity create --service=secretmanager.googleapis.com"
            " --project=my-project-id",
            "gcloud kms keys add-iam-policy-binding weights --keyring=team --location=us-east5"
            " --project=acme-keys --member=serviceAccount:AGENT"
            " --role=roles/cloudkms.cryptoKeyEncrypterDecrypter",
        ),
    },
    "docs/how-to/first-deployment.md": {
        LOGIN: (
            "gcloud config set project my-project-id",
            "gcloud auth application-default login",
        ),
        TUTORIAL: (_INIT,),
        REHEARSAL: (*_MIRROR, _DOCTOR, _UP, _ASK, _CLIENT_OF_IT, _STATUS, _DOWN),
        FETCHING: _FETCH,
    },
    "docs/how-to/library.md": {
        HOW_TO: (
            "tpuflex --stack chat library up",
            "tpuflex --stack chat weights push",
            "tpuflex --stack chat weights ls",
            "tpuflex --stack chat library status",
            "tpuflex --stack chat library up --region europe-west4",
            "tpuflex --stack chat library down --dry-run",
            "tpuflex --stack chat library down",
        ),
    },
    "docs/how-to/other-languages.md": {
        INSTALLING: (
            "python3 -m venv .venv && source .venv/bin/activate",
            "pip install '/path/to/tpuflex[embedded]'",
        ),
        HOSTS: ("pulumi package add ./.venv/bin/pulumi-resource-tpuflex",),
    },
    "docs/how-to/private-access.md": {
        HOW_TO: (
            'tpuflex --stack chat ask "What is a queued resource?"',
            'tpuflex --stack chat ask --max-tokens 32 --temperature 0.7 "Name a tree."',
            "tpuflex --stack chat client",
            "tpuflex --stack chat client -- python hello.py",
            'eval "$(tpuflex --stack chat client --as env --show-key)"',
            'tpuflex --stack chat ask --url http://127.0.0.1:8000 "Are you there?"',
            "cat server.pem key.pem | tpuflex --stack chat secrets put tls-certificate",
            "tpuflex --stack chat up",
            "tpuflex --stack chat secrets put api-key < keys.txt",
        ),
        PRIVATE: ("tpuflex --stack chat tunnel", "tpuflex --stack chat ssh"),
        BENCHMARK: (
            "tpuflex --stack chat client -- sh -c"
            """ 'vllm bench serve --base-url "${OPENAI_BASE_URL%/v1}" --model "$OPENAI_MODEL\"'""",
        ),
        ENDLESS: ("tpuflex --stack chat logs --follow",),
    },
    "docs/how-to/renewal.md": {
        HOW_TO: (
            "tpuflex --stack chat up",
            "tpuflex --stack chat up --renewal-only --yes",
            "tpuflex ci stacks --renewing --json",
        ),
    },
    "docs/how-to/diagnose.md": {
        DIAGNOSED: (
            "tpuflex --stack chat diagnose",
            "tpuflex --stack chat diagnose --json",
            "tpuflex docs runbooks/hbm-out-of-memory",
            "tpuflex diagnose --file vllm.log",
            "tpuflex --stack chat diagnose --bundle chat.tar.gz",
            "tpuflex --stack chat diagnose --explain http://localhost:8001/v1",
        ),
    },
    "docs/how-to/measure.md": {
        MEASURED: (
            "tpuflex --stack chat verify",
            "tpuflex --stack chat details",
            "tpuflex --stack chat metrics",
            "tpuflex --stack chat metrics --watch",
        ),
        TABLE: ("tpuflex bench import table.csv",),
        LOAD: (
            "tpuflex --stack prod bench run --concurrency 1,8,64,256 --context 128,2K,8K",
            "tpuflex --stack prod bench run --resume bench/prod-20261129-031500.jsonl",
            "tpuflex --stack prod bench ramp --context 1K --gate 'ttft_p95<1.5s@128'",
        ),
        RUNS: (
            "tpuflex bench report before.jsonl",
            "tpuflex bench compare before.jsonl after.jsonl",
            "tpuflex bench export before.jsonl --format llm-d -o reports",
        ),
        INSTALLING: ("pip install '/path/to/tpuflex[measure]'",),
        RECORDED: ("tpuflex --stack chat metrics record",),
        ARCHIVE: (
            "tpuflex --stack chat capacity",
            "tpuflex --stack chat capacity --since 7d --plot week.svg",
        ),
        "writes to a bucket on Google": (
            "gcloud storage rsync --recursive metrics gs://my-bucket/metrics",
        ),
    },
    "docs/how-to/gateway.md": {
        INSTALLING: ("pip install '/path/to/tpuflex[gateway,embedded]'", "pip install openai"),
        GATEWAY: (
            "tpuflex gateway run",
            "tpuflex gateway run --config gateway.yaml",
        ),
        ASKED_GATEWAY: (
            "export OPENAI_BASE_URL=http://127.0.0.1:8080/v1"
            ' OPENAI_API_KEY="$(cat .tpuflex/gateway/client.key)"',
            "export OPENAI_MODEL=HuggingFaceTB/SmolLM2-135M-Instruct",
            'python3 docs/examples/gateway_client.py "Name a tree."',
            "tpuflex gateway status",
            "tpuflex gateway status --config gateway.yaml --watch",
        ),
        MEASURED: ("tpuflex up",),
        "prints another key each time; tests/cli/test_gateway.py types it": (
            "tpuflex gateway key web",
        ),
        RENDERED: (
            "tpuflex gateway render envoy --config gateway.yaml"
            " --certificate tls.pem --key key.pem > envoy.yaml",
            "tpuflex gateway render llm-d --config gateway.yaml --model chat > endpoints.yaml",
            "tpuflex gateway render bifrost --config gateway.yaml > config.json",
            "tpuflex gateway alerts --config gateway.yaml > gateway.rules.yml",
        ),
    },
    "docs/how-to/watch.md": {
        MEASURED: (
            "tpuflex --stack chat alerts",
            "tpuflex --stack chat alerts prometheus > chat.rules.yml",
            "tpuflex --stack chat alerts grafana > chat.json",
            "tpuflex --stack chat gateway alerts > gateway.rules.yml",
            "tpuflex status --all",
        ),
        WATCHED: ("tpuflex status --all --watch",),
    },
    "docs/how-to/assistants.md": {
        INSTALLING: ("pip install '/path/to/tpuflex[mcp]'",),
        SERVED: ("tpuflex --stack chat mcp --http 8765",),
    },
    "docs/how-to/teardown.md": {
        HOW_TO: (
            "tpuflex --stack chat down --dry-run",
            "tpuflex --stack chat down",
            "tpuflex down --all --dry-run",
            "tpuflex down --older-than 12h --yes",
            "tpuflex down --label tpuflex-stack=chat --yes",
            "tpuflex --stack chat recover",
            "tpuflex sweep",
            "tpuflex sweep --yes",
            "tpuflex sweep --all --exit-code --json",
        ),
        "removes what a bootstrap made: tests/acceptance/engine/test_bootstrap.py": (
            "tpuflex --stack chat bootstrap --remove --dry-run",
        ),
    },
    "docs/how-to/troubleshooting.md": {
        HOW_TO: (
            "tpuflex --stack chat doctor",
            "tpuflex --stack chat status",
            "tpuflex --stack chat events",
            "tpuflex --stack chat preview --refresh",
            "tpuflex --stack chat up --refresh",
            "tpuflex engine",
        ),
        DIAGNOSED: ("tpuflex --stack chat diagnose",),
        NO_LOG: ("tpuflex --stack chat logs", "tpuflex --stack chat logs --kept"),
        "a lock in a bucket on Google; tests/engine/test_recovery_lock.py": (
            'export PATH="$PATH:DIRECTORY"',
            "export PULUMI_BACKEND_URL=gs://our-pulumi-states",
            "pulumi cancel --stack chat",
            "tpuflex --stack chat recover",
        ),
    },
    "docs/how-to/working-together.md": {
        SHARED: (
            'export PULUMI_CONFIG_PASSPHRASE=""',
            'PULUMI_BACKEND_URL="file://$PWD/.tpuflex/backend"'
            " pulumi stack export --stack gemma-4-e4b-v6e-1 --file state.json",
            "pulumi login gs://our-pulumi-states",
            "pulumi stack init gemma-4-e4b-v6e-1",
            "pulumi stack import --stack gemma-4-e4b-v6e-1 --file state.json",
        ),
    },
    "docs/how-to/weights.md": {
        SMALL_MACHINE: (
            "export TPUFLEX_HOME=$HOME/tpuflex",
            "tpuflex --stack chat weights push --yes",
        ),
        "a machine of Compute Engine": (
            "gcloud compute instances create pusher --zone=us-east5-a --machine-type=e2-standard-2"
            " --image-family=debian-12 --image-project=debian-cloud --boot-disk-size=50GB"
            " --max-run-duration=6h --instance-termination-action=DELETE",
            "gcloud compute ssh pusher --zone=us-east5-a",
            "gcloud auth application-default login",
            "gcloud compute instances delete pusher --zone=us-east5-a",
        ),
        FETCHING: ("hf download google/gemma-4-E4B-it --local-dir models/gemma-4-E4B-it",),
        HOW_TO: (
            "tpuflex --stack chat weights push",
            "tpuflex --stack chat weights ls",
            "tpuflex --stack chat weights verify",
            "tpuflex --stack chat secrets put hf-token",
            "tpuflex --stack chat weights hash",
            "tpuflex --stack chat weights rm models/google-gemma-4-e4b-it/1 --dry-run",
            "tpuflex --stack chat weights rm --unfinished --yes",
            "tpuflex --stack chat weights rm --unused-for 30 --yes",
            "tpuflex memory --model-dir models/gemma-4-E4B-it --accelerator v6e-1",
            "tpuflex memory --model-dir models/gemma-4-E4B-it --row",
        ),
    },
    "docs/policy.md": {
        PACK: (
            "pack=$(tpuflex policy --pack)",
            "python3 -m venv ~/.tpuflex-policy && . ~/.tpuflex-policy/bin/activate",
            'pip install -r "$pack/requirements.txt"',
            'pulumi preview --policy-pack "$pack"',
        ),
    },
    "docs/pulumi.md": {
        PLAIN: (
            "tpuflex emulator start",
            'eval "$(tpuflex emulator env)"',
            "tpuflex weights hash",
            "tpuflex secrets ensure && tpuflex weights push",
            "pulumi up --stack dev",
        ),
        OWN_PROGRAM: (
            "tpuflex --stack dev secrets ensure",
            "tpuflex --stack dev weights push DIRECTORY",
            "tpuflex --stack dev status",
            'tpuflex --stack dev ask "Hello"',
        ),
    },
    "docs/rehearsal.md": {
        REHEARSAL: (*_REHEARSE, *_MIRROR, _DOCTOR, _UP, _ASK, _CLIENT_OF_IT, _STATUS, _DOWN, _STOP),
    },
    "docs/tutorial.md": {
        INSTALLING: (
            "mkdir hello && cd hello",
            "python3 -m venv .venv && source .venv/bin/activate",
            "pip install '/path/to/tpuflex[embedded]'",
        ),
        TUTORIAL: (
            "tpuflex init --cloud embedded",
            "tpuflex preview",
            "tpuflex up",
            f"tpuflex ask {_CAPITAL}",
            *_CLIENT,
            "tpuflex status",
            "sed -i 's/max_num_seqs: 8/max_num_seqs: 4/' stacks/Pulumi.dev.yaml",
            "tpuflex down",
            "tpuflex emulator stop",
            _INIT,
            "tpuflex --stack first-proof cost",
            "tpuflex --stack first-proof memory",
        ),
        REHEARSAL: (*_REHEARSE, *_MIRROR, _DOCTOR, _UP, _ASK, _DOWN),
        FETCHING: _FETCH,
        LOGIN: (
            "gcloud auth login",
            "gcloud config set project my-project-id",
            "gcloud auth application-default login",
        ),
    },
}

#: Blocks of Python are files, which a test runs.
PYTHON = {
    "docs/examples/client/hello.py": "tests/cli/test_client.py",
    "docs/examples/library/__main__.py": "tests/acceptance/engine/test_endpoint_engine.py",
    "docs/examples/own_network/__main__.py": "tests/components/test_outputs.py",
}


def lines_of(page: str) -> list[str]:
    """The lines of shell of ``page``."""
    own = (block for block in blocks("sh") if block.page == page)
    return list(chain.from_iterable(block.lines() for block in own))


def untyped(test: str, typed: Collection[str]) -> list[str]:
    """The lines whose rows name ``test``, and that it has not ``typed``."""
    named = (line for rows in SHELL.values() for line in rows.get(test, ()))
    return [line for line in named if line not in typed]
