"""No secret gets into an answer, a bundle or an explanation, wherever a log picked it up."""

from __future__ import annotations

import base64
import json
import os
import stat
import tarfile
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.diagnosis.conftest import Endpoint
from tests.diagnosis.model import Model
from tpuflex.diagnosis.bundle import require_free, write_bundle
from tpuflex.diagnosis.diagnose import gather, judged
from tpuflex.diagnosis.explain import explain
from tpuflex.diagnosis.scrubber import Scrubber, secrets_in
from tpuflex.errors import UsageError
from tpuflex.naming import API_KEY
from tpuflex.settings.stack_yaml import without_ciphertexts

#: The API key of the stack: it looks like nothing.
KEY = "correct-horse/battery+staple"
HUB = "a-token-of-the-hub-in-no-known-form"
PASSPHRASE = "passphrase-of-pulumi-42"
#: What is removed by its looks.
SHAPES = (
    "hf_CANARYabcdefghijkl",
    "ya29.CANARY-access-token",
    "AIzaCANARY0123456789012345678901234",
    "1//0CANARYrefreshtoken0123456789",
    "eyJhbGciOiJSUzI1NiJ9.eyJDQU5BUlkiOjF9.c2lnbmF0dXJlLUNBTkFSWQ",
    "sk-CANARY0123456789abcdef",
    "ghp_CANARY0123456789abcdefABCDEF",
)
PEM = (
    "-----BEGIN PRIVATE KEY-----\n"
    "MIICANARYQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7CANARY\n"
    "-----END PRIVATE KEY-----"
)
ALL = (
    KEY,
    quote(KEY, safe=""),
    base64.b64encode(KEY.encode()).decode(),
    HUB,
    PASSPHRASE,
    *SHAPES,
    "CANARY",
    "Bearer opaque",
    "jo:hunter2",
)
WORDS = " ".join(
    (
        *ALL[:5],
        *SHAPES,
        "Authorization: Bearer opaque-CANARY-token",
        "https://jo:hunter2CANARY@registry.example.com/v2/",
        "--api-key CANARY-option",
        "{'api_key': ['CANARY-argument']}",
    )
)


@pytest.fixture
def leaking(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose boot failed, with secrets wherever its host could write them."""
    cloud = endpoint.cloud
    version = cloud.secret_version(API_KEY)
    secret, _, _ = version.partition("/versions/")
    parent, _, name = secret.partition("/secrets/")
    settings = cloud.stack.settings
    made = endpoint.api.call(
        "POST",
        f"v1/projects/{settings.project}/secrets",
        body={"replication": {"automatic": {}}},
        secretId=name,
    )
    assert made.ok, (parent, made.text)
    body = {"payload": {"data": base64.b64encode(KEY.encode()).decode()}}
    assert endpoint.api.call("POST", f"v1/{secret}:addVersion", body=body).ok
    endpoint.cloud = replace(
        cloud,
        environ={**cloud.environ, "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE},
        hub_token=HUB,
    )
    endpoint.runs()
    why = f"container-died: the server died: {WORDS}\n{PEM}\nRESOURCE_EXHAUSTED: {WORDS}"
    endpoint.reports("health", why)
    boot = endpoint.boot_log()
    boot.write(
        "health",
        9,
        f"phase health {WORDS}",
        *PEM.splitlines(),
        WORDS,
        error=why,
        container=f"{WORDS}\n{PEM}\nRESOURCE_EXHAUSTED: {WORDS}",
    )
    return endpoint


def test_canaries(leaking: Endpoint, tmp_path: Path, model: Model) -> None:
    """0 of them in the answer, the bundle, what is sent to a model, and what it sends back."""
    found = gather(leaking.cloud, tunnel=False)
    diagnosis = judged(leaking.cloud, found)
    assert diagnosis.findings[0].failure.slug == "hbm-out-of-memory"
    path = tmp_path / "b.tar.gz"
    bundle = write_bundle(leaking.cloud, found, diagnosis, path)
    model.says = f"Draft: the key is {KEY}, or {SHAPES[0]}."
    draft = explain(diagnosis, found.scrub, model.url, key="key-of-the-model")

    with tarfile.open(path) as archive:
        files = {each.name: archive.extractfile(each) for each in archive.getmembers()}
        packed = "".join(file.read().decode() for file in files.values() if file)
    assert {"host-log.txt", "server-log.txt", "status.json", "events.json"} <= {*bundle.files}
    everything = {
        "answer": json.dumps(diagnosis.to_json()),
        "bundle": packed,
        "sent": json.dumps(model.bodies),
        "draft": json.dumps(draft.to_json()),
    }
    for where, text in everything.items():
        assert [each for each in ALL if each in text] == [], where
        assert "[removed]" in text, where


def test_a_bundle_is_its_owners_alone(leaking: Endpoint, tmp_path: Path) -> None:
    """Mode 0600 whatever the umask; nothing is replaced, and no link is followed."""
    found = gather(leaking.cloud, tunnel=False)
    diagnosis = judged(leaking.cloud, found)
    path = tmp_path / "b.tar.gz"
    umask = os.umask(0)
    try:
        write_bundle(leaking.cloud, found, diagnosis, path)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    link = tmp_path / "link.tgz"
    link.symlink_to(tmp_path / "nowhere.tgz")
    for taken in (path, link):
        with pytest.raises(UsageError, match="is not replaced"):
            require_free(taken)
        with pytest.raises(UsageError, match="is not replaced"):
            write_bundle(leaking.cloud, found, diagnosis, taken)
    assert not (tmp_path / "nowhere.tgz").exists()
    with pytest.raises(UsageError, match="not a directory"):
        require_free(tmp_path / "no" / "b.tgz")
    with pytest.raises(UsageError, match="end in"):
        require_free(tmp_path / "b.zip")


#: The same keys in other ways that YAML has.
SPELLINGS = r"""
  # secure: v1:CANARY
  a: {secure: "v1:CANARY", other: &anchor v1:CANARY}
  b:
    secure: >-
      v1:CANARY
      CANARY
  c: {"secure": v1:CANARY, d: [{secure: *anchor}]}
  e:
    ? secure
    : v1:CANARY
  f: {"\x73ecure": [v1:CANARY, &inner {secure: v1:CANARY}], secure: *inner}
  g:
    secure: v1:CANARY:x
  last: shown
"encryptedkey": |
  CANARY
"""


def test_what_pulumi_encrypted_stays_out_of_a_bundle(endpoint: Endpoint, tmp_path: Path) -> None:
    """Neither ciphertext nor salt of a stack file is packed, however they are spelled."""
    file = endpoint.cloud.stack.file
    file.write_text(f"encryptionsalt: v1:CANARY=\n{file.read_text()}{SPELLINGS}")
    found = gather(endpoint.cloud, tunnel=False)
    path = tmp_path / "b.tar.gz"
    write_bundle(endpoint.cloud, found, judged(endpoint.cloud, found), path)

    with tarfile.open(path) as archive:
        packed = archive.extractfile("diagnosis/stack.yaml")
        assert packed is not None
        text = packed.read().decode()
    assert "CANARY" not in text
    assert "encryptionsalt: [removed]\n" in text
    assert "secure: [removed]\n  last: shown\n" in text
    assert "Withheld" in without_ciphertexts("secure: [v1:CANARY")


def test_short_words_are_no_secrets() -> None:
    """What has few letters would be removed everywhere; of a PEM file, what every one has stays."""
    scrub = Scrubber(["dev", f"{PEM}\n"])

    assert scrub("tpuflex-dev: -----BEGIN CERTIFICATE-----") == (
        "tpuflex-dev: -----BEGIN CERTIFICATE-----"
    )


def test_a_known_secret_is_found_in_other_spellings() -> None:
    """Within Base64, which has the user before it; with blanks in it; in a log, also in a line that
    is cut."""
    scrub = Scrubber([KEY])

    for user in ("", "u:", "jo:", "jim:"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            encoded = encode(f"{user}{KEY}:x".encode()).decode()
            before, _, after = scrub(encoded).partition("[removed]")
            assert len(before + after) <= 12, encoded
    assert scrub(f"no: {KEY[:10]} {KEY[10:20]}\n{KEY[20:]}.") == "no: [removed]."
    (line,) = scrub.lines([f"{'x' * 8185}{KEY}{'y' * 100_000}"])
    assert line == f"{'x' * 8185}[remove"


def test_the_secrets_of_a_shell(tmp_path: Path) -> None:
    """By the names of variables, and in the files that such name; a short one where it stands
    alone, and no word that stands everywhere."""
    file = tmp_path / "passphrase"
    file.write_text("battery-of-horses\n")
    environ = {
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(file),
        "PULUMI_CONFIG_PASSPHRASE": "s3cr3t!",
        "X_APIKEY": "abcdefgh-apikey",
        "DB_PW": "abcdefgh-pw",
        "OPENAI_API_KEYS": "abcdefgh-keys",
        "X_KEY": "dev",
        "Y_TOKEN": "serving",
        "PWD": "/home/jane/project",
        "GOOGLE_APPLICATION_CREDENTIALS": "/home/jane/key.json",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS": "http://127.0.0.1:44713/",
        "Z_TOKEN_FILE": str(tmp_path / "nowhere"),
    }
    scrub = Scrubber(secrets_in(environ))

    secret = ("battery-of-horses", "s3cr3t!", "abcdefgh-apikey", "abcdefgh-pw", "abcdefgh-keys")
    assert scrub(" ".join(secret)) == " ".join(["[removed]"] * 5)
    plain = (
        "tpuflex-dev is serving in /home/jane/project by /home/jane/key.json and"
        " http://127.0.0.1:44713/v1"
    )
    assert scrub(plain) == plain
