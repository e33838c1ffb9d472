"""A runner of GitHub's for tests: the steps of a workflow, with bash and in their order, on a
repository whose stack is up. Only `gh` is a stand-in, and the checkouts, set-up and login are the
test's.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from embedded_cloud import daemon
from tests.acceptance.killed import stack_run
from tests.deploy.test_base_commit import ENVIRON, commit, git
from tests.engine.embedded import ROOT, write_project
from tpuflex.cli.invocation import Invocation
from tpuflex.engine.find import Engine

#: Secrets that the job, the cloud and the change hold.
TOKEN_CANARY, KEY_CANARY, ENV_CANARY = "ghs_Canary7Qx", "sk-Canary+4TnB", "hf_Canary9Zk"
#: The step that fetches what is here already.
_SET_UP = "Install tpuflex"
_BRANCH = "x\"$(touch PWNED)'`touch PWNED`@org ![i](http:!e)"

#: `gh api`, with comments in a file and the real jq; `gh run download`, of what a job has kept.
_GH = """\
#!{python}
import json, os, shutil, subprocess, sys
words = sys.argv[1:]
if words[:2] == ["run", "download"]:
    _, _, run, *options = words
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert (run, given["--repo"]) == ("11", "acme/endpoints") and os.environ["GH_TOKEN"], words
    shutil.copytree(os.path.join(os.environ["GH_KEPT"], given["--name"]), given["--dir"])
    sys.exit()
assert words.pop(0) == "api" and os.environ["GH_TOKEN"], words
options = dict(method="GET", field="", jq="")
flags, places = set(), []
while words:
    word = words.pop(0)
    if word[2:] in options:
        options[word[2:]] = words.pop(0)
    elif word.startswith("--"):
        flags.add(word)
    else:
        places.append(word)
(place,) = places
store = os.environ["GH_STORE"]
comments = json.load(open(store))
if options["method"] == "GET":
    assert place == "repos/acme/endpoints/issues/7/comments?per_page=100", place
    assert flags == {{"--paginate"}}, flags
    run = subprocess.run(["jq", "-r", options["jq"]], input=json.dumps(comments), text=True)
    sys.exit(run.returncode)
key, _, file = options["field"].partition("=@")
assert key == "body" and flags == {{"--silent"}}, (options, flags)
body = open(file).read()
if options["method"] == "PATCH":
    (known,) = [c for c in comments if place == f"repos/acme/endpoints/issues/comments/{{c['id']}}"]
    known["body"] = body
else:
    assert options["method"] == "POST" and place == "repos/acme/endpoints/issues/7/comments", place
    user = {{"login": "github-actions[bot]"}}
    comments.append({{"id": len(comments) + 100, "user": user, "body": body}})
json.dump(comments, open(store, "w"))
"""


@dataclass
class Runner:
    """A repository, and a machine that runs the jobs of a change of it.

    Attributes:
        top: the repository.
        temp: the runner's directory for temporary files.
        environ: variables of every step.
        said: all that the steps printed.
    """

    top: Path
    temp: Path
    environ: dict[str, str]
    said: list[str] = field(default_factory=list)

    @property
    def comments(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(Path(self.environ["GH_STORE"]).read_text())
        return found

    @property
    def summary(self) -> str:
        return (self.temp / "summary").read_text()

    def job(
        self, name: str, facts: dict[str, str], outside: bool = False, workflow: str = "preview"
    ) -> dict[str, str]:
        """Run a job's steps; what they put out, and under ``failed`` the name of one that did."""
        job = workflow_file(workflow)["jobs"][name]
        outputs: dict[str, str] = {}
        conditions = {"env.OUTSIDE == 'false'": not outside}
        environ = {**self.environ, "OUTSIDE": str(outside).lower()}
        for step in job["steps"]:
            if "run" not in step or step["name"] == _SET_UP:
                continue
            if not conditions[step["if"]] if "if" in step else False:
                continue
            known = {**facts, **{f"steps.{name}.outputs.{k}": v for k, v in outputs.items()}}
            given = {key: _resolved(text, known) for key, text in (step.get("env") or {}).items()}
            assert "${{" not in step["run"], "a script into which GitHub would write text"
            (self.temp / "output").write_text("")
            done = subprocess.run(
                # https://docs.github.com/actions/reference/workflows-and-actions/workflow-syntax
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.top,
                env={**environ, **given},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            self.said.append(done.stdout + done.stderr)
            lines = (self.temp / "output").read_text().splitlines()
            outputs |= dict(line.split("=", 1) for line in lines)
            if done.returncode:
                return {**outputs, "failed": step["name"], "said": done.stdout + done.stderr}
        return outputs

    def preview(self, *, outside: bool = False) -> dict[str, dict[str, str]]:
        """Both jobs of a pull request with what is committed: the outcome of each stack's."""
        provider = "projects/1/locations/global/workloadIdentityPools/tpuflex/providers/github"
        base = subprocess.run(
            ["git", "rev-parse", "main"], cwd=self.top, capture_output=True, text=True, check=True
        ).stdout.strip()
        facts = {
            "inputs.directory": "project",
            "inputs.backend": "",
            "inputs.workload_identity_provider": provider,
            "github.event.pull_request.base.sha": base,
            "github.event.pull_request.number": "7",
            "github.token": TOKEN_CANARY,
        }
        changed = self.job("changed", facts)
        if "failed" in changed:
            return {"": changed}
        return {
            stack: self.job("preview", {**facts, "matrix.stack": stack}, outside)
            for stack in json.loads(changed["stacks"])
        }


def workflow_file(name: str) -> Any:
    """A workflow of tpuflex."""
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())


def _resolved(text: str, facts: dict[str, str]) -> str:
    """A variable of a step: one expression and nothing else, or a literal."""
    match = re.fullmatch(r"\$\{\{ (\S+) \}\}", text)
    return text if match is None else facts[match[1]]


@pytest.fixture(scope="session")
def deployed(
    tmp_path_factory: pytest.TempPathFactory, pulumi_engine: Engine
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A repository whose stack `dev` is up on an embedded cloud, and variables for its commands."""
    top = tmp_path_factory.mktemp("job")
    project = write_project(top / "project")
    tools = top / "tools"
    tools.mkdir(mode=0o700)
    (tools / "pulumi").symlink_to(pulumi_engine.path)
    (tools / "tpuflex").symlink_to(Path(sys.executable).parent / "tpuflex")
    (tools / "gh").write_text(_GH.format(python=sys.executable))
    (tools / "gh").chmod(0o700)
    file = project / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:secrets"] = {"api_key_version": 1}
    file.write_text(yaml.safe_dump(document))
    (top / ".gitignore").write_text("tools/\n.tpuflex/\n")
    git(top, "init", "--quiet", "--initial-branch", "main")
    commit(top)
    environ = {**ENVIRON, "PATH": f"{tools}:/usr/bin:/bin", "HOME": str(top)}
    daemon.start(project / ".tpuflex" / "emulator", port=0, stub_hosts=True)
    try:
        invocation = Invocation(environ=environ, directory=project)
        cloud = invocation.connect(invocation.open_stack())
        stack_run(project, pulumi_engine, dict(cloud.environ)).up()
        subprocess.run(
            ["tpuflex", "-C", str(project), "secrets", "put", "api-key"],
            env=environ, input=KEY_CANARY, text=True, check=True, capture_output=True,
        )  # fmt: skip
        yield top, environ
    finally:
        daemon.stop(project / ".tpuflex" / "emulator")
        shutil.rmtree(project / ".tpuflex")


@pytest.fixture
def runner(deployed: tuple[Path, dict[str, str]], tmp_path: Path) -> Iterator[Runner]:
    """A runner on a branch of its own, whose name is hostile."""
    top, environ = deployed
    git(top, "checkout", "--quiet", "-B", "change", "main")
    git(top, "clean", "--quiet", "--force")
    (tmp_path / "comments").write_text("[]")
    (tmp_path / "summary").write_text("")
    variables = {
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
        "GITHUB_REPOSITORY": "acme/endpoints",
        "GITHUB_HEAD_REF": _BRANCH,
        "GH_STORE": str(tmp_path / "comments"),
    }
    runner = Runner(top, tmp_path, {**environ, **variables})
    yield runner
    shown = "\n".join([*runner.said, runner.summary, json.dumps(runner.comments)])
    for canary in (TOKEN_CANARY, KEY_CANARY, ENV_CANARY):
        assert canary not in shown
    assert not list(top.rglob("PWNED"))


def edited(runner: Runner, **sections: dict[str, object]) -> None:
    """Change sections of the stack file of `dev`, and commit."""
    file = runner.top / "project" / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    for name, values in sections.items():
        document["config"].setdefault(f"tpuflex:{name}", {}).update(values)
    file.write_text(yaml.safe_dump(document))
    commit(runner.top)


def settled(text: str) -> str:
    """``text`` without what differs from run to run."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "MOMENT", text)
    text = re.sub(r"\b(\d+ h(?: \d+ min)?|\d+ min|\d+ s)\b", "WHILE", text)
    # A host that runs nothing is READY at once, or a second later on a busy machine.
    return text.replace(" (this one took WHILE, by its own report)", "")


def bodies(runner: Runner) -> list[str]:
    return [settled(comment["body"]) for comment in runner.comments]
