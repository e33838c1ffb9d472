"""Whether each API that an endpoint needs is enabled, and answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.doctor.check import Check, Group, Subject
from tpuflex.doctor.side_by_side import Examination
from tpuflex.errors import ServiceDisabledError
from tpuflex.gcloud_commands import enable_services
from tpuflex.google.api_states import ApiState, api_states
from tpuflex.google.reading import DisabledApi, Unread
from tpuflex.google.required_apis import GoogleApi, needed_apis

if TYPE_CHECKING:
    from tpuflex.doctor.cloud import ExaminedCloud

#: What enables the others; `up` cannot do that if it is off itself.
_ENABLER = "serviceusage"


def examinations(cloud: ExaminedCloud) -> list[Examination]:
    """What to examine of the project's APIs."""
    return [Examination(Group.APIS, "APIs", partial(_examine, cloud))]


def _examine(cloud: ExaminedCloud) -> tuple[Check, ...]:
    settings = cloud.settings
    states = api_states(cloud.apis, cloud.project, needed_apis(settings))
    return api_checks(cloud.project, states, managed=settings.manage_apis)


def api_checks(
    project: str, states: Mapping[GoogleApi, ApiState], *, managed: bool = True
) -> tuple[Check, ...]:
    """How each API stands. One that is not enabled is no failure where `up` enables it.

    Args:
        project: Google Cloud project id.
        states: how each of them stands.
        managed: whether `up` enables what is not.
    """
    return tuple(_check(project, api, state, managed) for api, state in states.items())


def _check(project: str, api: GoogleApi, state: ApiState, managed: bool) -> Check:
    subject = Subject(Group.APIS, api.service)
    enable = str(enable_services(project, api.service))
    match state:
        case ApiState.ANSWERS:
            return subject.ok("answers")
        case ApiState.ENABLED:
            return subject.ok("enabled; only the hosts ask it")
        case ApiState.SETTLING:
            again = Advice("Wait a few minutes, or let `{up}` wait: {up}")
            return subject.warning(state.value, again)
        case ApiState.DISABLED if api.name == _ENABLER:
            return subject.failed(
                ServiceDisabledError, "not enabled, and it enables the others", enable
            )
        case ApiState.DISABLED if not managed:
            return subject.failed(
                ServiceDisabledError, "not enabled, and tpuflex:manage_apis is false", enable
            )
        case ApiState.DISABLED:
            text = Advice("not enabled; `{up}` enables what it needs first")
            return subject.warning(text, enable, DisabledApi(api.service, project))
        case ApiState.UNKNOWN:
            return subject.unknown(
                Unread("what is enabled may not be read, or gets no answer", enable)
            )
