#!/usr/bin/env bash
# Startup of a serving host, part 10: read the configuration. It is data: each value becomes an
# entry of an array, none becomes part of a command's text.
set -Eeuo pipefail

declare -A SETTINGS=()

# setting KEY: the value at a dotted key, such as weights.bucket.
setting() {
    printf '%s' "${SETTINGS[$1]}"
}

# setting_list KEY ARRAY: fill ARRAY with the list at KEY.
setting_list() {
    local -n into=$2
    local index
    into=()
    for ((index = 0; index < SETTINGS[$1.count]; index++)); do
        into+=("${SETTINGS[$1.$index]}")
    done
}

# Turn the document into NUL-separated keys and values, or say what is wrong with it.
config_fields() {
    python_source environment >"$STATE_DIR/environment.py"
    python3 -IS - "$STATE_DIR" <<'PYTHON'
import hashlib
import json
import re
import sys
from urllib.parse import quote

# Only root can write there.
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from environment import refusals

try:
    with open(f"{sys.argv[1]}/config.json", encoding="utf-8") as file:
        config = json.load(file)
except ValueError as error:
    sys.exit(f"tpuflex-config is not JSON: {error}")
if not isinstance(config, dict) or config.get("schema") != 1:
    sys.exit("tpuflex-config has a schema that this script does not know (1 is known)")

fields = {}
TEXT = {
    "container": {
        "name": r"[a-zA-Z0-9][a-zA-Z0-9_.-]+",
        "image": r"[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}",
        "shm_size": r"\d+[bkmg]?",
        "isolation": r"required|preferred|none",
        "egress": r"none|internet",
    },
    "serving": {
        "model_name": r"[^\x00-\x1f]+",
        # The oldest vLLM that may serve; 0 lets every one.
        "security_floor": r"\d+(\.\d+){0,3}",
        # A file of the weights, or empty for the template that the tokenizer names.
        "chat_template": r"(?!.*(?:^|/)\.\.?(?:/|$))(?:[A-Za-z0-9][A-Za-z0-9_./-]*\.jinja)?",
    },
    "weights": {
        "bucket": r"[a-z0-9][a-z0-9._-]+",
        "prefix": r"[^\x00-\x1f]+",
        "manifest": r"[^\x00-\x1f/]+",
        "manifest_sha256": r"[0-9a-f]{64}",
    },
    "compile_cache": {"mode": r"none|host|bucket", "prefix": r"[a-z][a-z0-9-]*(/[a-z][a-z0-9-]*)?"},
    "commands": {"weights": r"[^\x00-\x1f]*", "secrets": r"[^\x00-\x1f]*"},
}
NUMBERS = {
    # By the last two a warm-up goes.
    "serving": ("port", "max_num_batched_tokens", "max_num_seqs"),
    "weights": ("parallelism",),
    "timeouts": ("ready_s", "secret_s"),
}


def put_list(key, values):
    for index, value in enumerate(values):
        if not isinstance(value, str) or "\0" in value:
            sys.exit(f"tpuflex-config: {key} is not a list of texts")
        fields[f"{key}.{index}"] = value
    fields[f"{key}.count"] = str(len(values))


try:
    for part, names in TEXT.items():
        for name, pattern in names.items():
            value = config[part][name]
            if not isinstance(value, str) or not re.fullmatch(pattern, value):
                sys.exit(f"tpuflex-config: {part}.{name} is not valid: {value!r}")
            fields[f"{part}.{name}"] = value
    for part, names in NUMBERS.items():
        for name in names:
            value = config[part][name]
            if type(value) is not int or value < 1:
                sys.exit(f"tpuflex-config: {part}.{name} is not a positive number: {value!r}")
            fields[f"{part}.{name}"] = str(value)
    expected = config["weights"]["expected_gbps"]
    if type(expected) is not int or not 0 <= expected < 10_000:
        sys.exit(f"tpuflex-config: weights.expected_gbps is not valid: {expected!r}")
    fields["weights.expected_gbps"] = str(expected)
    warmup = config["serving"]["warmup_s"]
    if type(warmup) is not int or not 0 <= warmup <= 600:
        sys.exit(f"tpuflex-config: serving.warmup_s is not valid: {warmup!r}")
    fields["serving.warmup_s"] = str(warmup)
    for name in ("run_s", "drain_s", "margin_s"):
        value = config["drain"][name]
        if type(value) is not int or not 0 <= value <= 10_000_000:
            sys.exit(f"tpuflex-config: drain.{name} is not a number of seconds: {value!r}")
        fields[f"drain.{name}"] = str(value)
    every = config["monitoring"]["every_s"]
    # Google takes a point of a series every 5 s at most.
    if type(every) is not int or not (every == 0 or 5 <= every <= 3600):
        sys.exit(f"tpuflex-config: monitoring.every_s is not valid: {every!r}")
    fields["monitoring.every_s"] = str(every)
    put_list("serving.args", config["serving"]["args"])
    put_list("weights.formats", config["weights"]["formats"])
    environment = config["container"]["env"]
    for name in environment:
        if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", name):
            sys.exit(f"tpuflex-config: container.env has an invalid name: {name!r}")
    for name, reason in refusals(environment):
        sys.exit(f"tpuflex-config: container.env.{name} is refused: it {reason}")
    put_list("container.env", [f"{name}={value}" for name, value in environment.items()])
    secrets = config["secrets"]
    for secret in secrets:
        if secret["role"] not in ("api-key", "tls-certificate", "metrics-key"):
            sys.exit(f"tpuflex-config: unknown role of a secret: {secret['role']!r}")
        if not re.fullmatch(r"projects/[^/\s]+/secrets/[\w-]+/versions/\d+", secret["version"]):
            sys.exit(f"tpuflex-config: not a pinned version: {secret['version']!r}")
    put_list("secrets.roles", [secret["role"] for secret in secrets])
    put_list("secrets.versions", [secret["version"] for secret in secrets])
    if "api-key" not in [secret["role"] for secret in secrets]:
        sys.exit("tpuflex-config: there is no api-key among the secrets")
except (KeyError, TypeError, AttributeError) as error:
    sys.exit(f"tpuflex-config: a part is missing or has the wrong form: {error}")


# Of buckets in several regions, that of this host's own.
buckets = config["weights"].get("buckets")
if buckets is not None:
    with open(f"{sys.argv[1]}/zone", encoding="utf-8") as file:
        region = file.read().rpartition("/")[2].rpartition("-")[0]
    near = buckets.get(region) if isinstance(buckets, dict) else None
    if not isinstance(near, str) or not re.fullmatch(TEXT["weights"]["bucket"], near):
        known = ", ".join(sorted(buckets)) if isinstance(buckets, dict) else "none"
        sys.exit(
            f"tpuflex-config: weights.buckets has no bucket for {region or 'no region'}, where this"
            f" host is; it has: {known}"
        )
    fields["weights.bucket"] = near
bucket, prefix = fields["weights.bucket"], fields["weights.prefix"]
manifest = quote(f"{prefix}/{fields['weights.manifest']}", safe="")
fields["weights.manifest_url"] = f"b/{quote(bucket)}/o/{manifest}?alt=media"
fields["weights.id"] = hashlib.sha256(f"{bucket}/{prefix}".encode()).hexdigest()[:16]
# Compiled programs are in the library beside the weights, or in the endpoint's own bucket.
programs = config["compile_cache"].get("bucket", bucket)
if not isinstance(programs, str) or not re.fullmatch(TEXT["weights"]["bucket"], programs):
    sys.exit(f"tpuflex-config: compile_cache.bucket is not valid: {programs!r}")
fields["compile_cache.bucket"] = programs
# What signs them: a pinned version of the endpoint's own secret, or the latest of a library's.
secret = config["compile_cache"].get("key", "")
version = r"projects/[^/\s]+/secrets/[\w-]+/versions/(\d+|latest)"
if fields["compile_cache.mode"] == "none":
    version = ""
if not isinstance(secret, str) or not re.fullmatch(version, secret):
    sys.exit(f"tpuflex-config: compile_cache.key is not valid: {secret!r}")
fields["compile_cache.key"] = secret
for key, value in fields.items():
    sys.stdout.write(f"{key}\0{value}\0")
PYTHON
}

read_config() {
    phase config
    metadata_config
    # Only a document with buckets in several regions needs it, and says so.
    metadata instance/zone "$STATE_DIR/zone" || : >"$STATE_DIR/zone"
    if ! config_fields >"$STATE_DIR/config.fields" 2>"$STATE_DIR/config.problem"; then
        fail config "$(tail --lines=1 "$STATE_DIR/config.problem")"
    fi
    local -a fields=()
    local index
    mapfile -d '' fields <"$STATE_DIR/config.fields"
    SETTINGS=()
    for ((index = 0; index < ${#fields[@]}; index += 2)); do
        SETTINGS[${fields[index]}]=${fields[index + 1]}
    done
    require_single_host
    metadata instance/network-interfaces/0/ip "$STATE_DIR/address" ||
        fail config 'the host has no internal address'
}

# The key is set when the node is made; a metadata server that comes up may not have it yet.
metadata_config() {
    local attempt
    for attempt in 1 2 3 4 5; do
        if metadata instance/attributes/tpuflex-config "$STATE_DIR/config.json"; then
            return 0
        fi
        detail "the metadata key tpuflex-config is not there (try $attempt of 5)"
        pause 2
    done
    fail config 'the node has no metadata key tpuflex-config'
}

# A slice of several hosts runs this script on each; serving across hosts is not built yet.
require_single_host() {
    local endpoints="$STATE_DIR/endpoints" worker="$STATE_DIR/worker"
    metadata instance/attributes/worker-network-endpoints "$endpoints" || return 0
    local -a hosts=()
    IFS=, read -r -a hosts <"$endpoints" || true
    ((${#hosts[@]} > 1)) || return 0
    metadata instance/attributes/agent-worker-number "$worker" || printf '?' >"$worker"
    fail multi-host "worker $(<"$worker") of ${#hosts[@]} hosts: serving runs on slices of a single host, \
such as v6e-1, v6e-4 and v6e-8; change slice.accelerator_type"
}
