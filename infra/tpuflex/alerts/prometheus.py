"""The rules as a file for Prometheus, with how to collect the metrics in its head."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

from tpuflex.alerts.promql import prometheus, promql
from tpuflex.alerts.rules import AlertRule
from tpuflex.duration import format_duration
from tpuflex.errors import UsageError

#: How often the rules are evaluated, and the metrics collected: a condition that has to hold for
#: 30 s is looked at a few times.
INTERVAL = "10s"
_JOB = re.compile(r"[A-Za-z0-9_][\w./:-]{0,199}", re.ASCII)
_HEAD = """\
# Alert rules of {what} for Prometheus, written by `{command}`.
# They watch the targets of the job {job}, which prometheus.yml scrapes like this:
#
#   scrape_configs:
#     - job_name: {job}
#       scrape_interval: {interval}
#       scheme: {scheme}
{tls}#       authorization:
#         credentials_file: /etc/prometheus/{job}.key  # its mode is 0600
#       static_configs:
#         - targets: ["{target}"]
#
{words}"""
_STACK = """\
# That file has the stack's metrics key, which opens /metrics and nothing else:
# tpuflex:secrets.metrics_key_version makes one. What Prometheus cannot see is watched by
# `tpuflex alerts`: {unseen}.
"""
_GATEWAY = """\
# That file is a copy of gateway/operator.key in the state directory of the gateway, .tpuflex of its
# project. The key opens /metrics and the document of `tpuflex gateway status`, and nothing else.
"""
_TLS = """\
#       tls_config:
#         ca_file: /etc/prometheus/{job}.pem  # its certificate
"""


def job_of(stack: str, named: str | None = None) -> str:
    """The job that collects from the server of ``stack``: the one that is ``named``, if any.

    Raises:
        UsageError: it cannot stand in a configuration, and in the name of a file, as it is.
    """
    job = f"tpuflex-{stack}" if named is None else named
    if not _JOB.fullmatch(job):
        raise UsageError(
            f"{job!r} is no job's name: write letters, digits and any of - _ . / :",
            option="--job",
        )
    return job


def prometheus_rules(rules: Iterable[AlertRule], stack: str, job: str) -> dict[str, object]:
    """The document of a rule file: those of ``rules`` that Prometheus can judge.

    Args:
        rules: the rules.
        stack: name of the stack that they are of; empty for none.
        job: the job that collects the metrics.
    """
    dialect = prometheus(job)
    written = []
    for rule in rules:
        if (condition := rule.prometheus_condition) is None:
            continue
        held = {"for": format_duration(rule.held)} if rule.held else {}
        written.append(
            {
                "alert": rule.name,
                "expr": promql(condition, dialect),
                **held,
                "labels": {"severity": rule.severity, **({"stack": stack} if stack else {})},
                "annotations": {
                    "summary": rule.summary,
                    "runbook": f"tpuflex docs runbooks/{rule.runbook}",
                    "next": rule.next.for_stack(stack),
                },
            }
        )
    return {"groups": [{"name": job, "interval": INTERVAL, "rules": written}]}


def prometheus_text(rules: Iterable[AlertRule], stack: str, job: str, server: str) -> str:
    """The rule file.

    Args:
        rules: the rules of the stack.
        stack: its name.
        job: the job that collects from its server.
        server: URL of its server.
    """
    rules = tuple(rules)
    unseen = ", ".join(rule.name for rule in rules if rule.prometheus_condition is None)
    head = _head(f"stack {stack}", "alerts prometheus", job, server, _STACK.format(unseen=unseen))
    return head + _yaml(prometheus_rules(rules, stack, job))


def gateway_text(rules: Iterable[AlertRule], stack: str, job: str, gateway: str) -> str:
    """The rule file of a gateway.

    Args:
        rules: its rules.
        stack: the stack whose file configures it; empty for one with a file of its own.
        job: the job that collects from it.
        gateway: its URL.
    """
    what = f"the gateway of stack {stack}" if stack else "a gateway"
    head = _head(what, "gateway alerts", job, gateway, _GATEWAY)
    return head + _yaml(prometheus_rules(rules, stack, job))


def _head(what: str, command: str, job: str, url: str, words: str) -> str:
    scheme, _, target = url.removesuffix("/v1").partition("://")
    return _HEAD.format(
        what=what,
        command=f"tpuflex {command}",
        job=job,
        interval=INTERVAL,
        scheme=scheme,
        tls=_TLS.format(job=job) if scheme == "https" else "",
        target=target,
        words=words,
    )


def _yaml(document: object) -> str:
    return yaml.dump(document, Dumper=_Blocks, sort_keys=False, width=100)


class _Blocks(yaml.SafeDumper):
    """Writes texts of several lines as they are."""


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Blocks.add_representer(str, _text)
