"""Google's discovery documents as the contract that requests are checked against.

The documents ship inside the PyPI package ``google-api-python-client``
(``googleapiclient/discovery_cache/documents``); they are located without importing that
package and read on the first call that needs them. A request with an unknown field, a
wrong type, an enum value that does not exist or a missing required field is refused as
Google refuses it; fields that are output only are dropped, as Google drops them.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from embedded_cloud.core.contract_schema import BodyChecker, snake
from embedded_cloud.core.errors import bad_request, invalid_argument
from embedded_cloud.core.json_types import (
    JsonObject,
    as_object,
    child,
    flag,
    text,
    texts,
)
from tpuflex.errors import EmulatorError

#: APIs whose servers ignore query parameters they do not know.
_LENIENT_QUERY = frozenset({"storage"})

#: APIs in whose PATCH a null clears the field; elsewhere null is the same as absent.
_NULL_CLEARS = frozenset({"storage", "compute", "dns"})

#: Sent by clients of every API although the documents do not list them.
_ALWAYS_ALLOWED = frozenset(
    # gcloud sends returnPartialSuccess to every list of Compute, documented there or not.
    {"upload_id", "uploadType", "upload_protocol", "pp", "trace", "returnPartialSuccess"}
)

_TRUE_FALSE = frozenset({"true", "false"})
#: With which the name of an image may end.
_DIGEST = "(?:@sha256:[0-9a-f]+)?"
#: In a template, a name with a star is that of a parameter that may have slashes.
_PARAMETER = re.compile(r"\{\+?(\w+\*?)\}")


@dataclass(frozen=True, slots=True)
class _Method:
    """One method: ``paths`` are its templates, that of plain JSON first."""

    method_id: str
    http_method: str
    paths: tuple[str, ...]
    parameters: JsonObject
    request: str


class Contract:
    """One API version's methods and schemas.

    Args:
        document: the parsed discovery document.
    """

    def __init__(self, document: JsonObject) -> None:
        self.api = text(document, "name")
        common = frozenset(child(document, "parameters")) | _ALWAYS_ALLOWED
        # System parameters may be written with a dollar sign ($alt): Google's own Python
        # libraries do, https://cloud.google.com/apis/docs/system-parameters.
        self._common = common | {f"${name}" for name in common}
        self._schemas = child(document, "schemas")
        self._methods = {
            method.method_id: method
            for method in (
                _method(entry, text(document, "servicePath")) for entry in _walk(document)
            )
        }

    @staticmethod
    @functools.cache
    def load(api: str, version: str) -> Contract:
        """The contract of ``api`` at ``version``, parsed once per process.

        Raises:
            EmulatorError: the package with the documents is not installed.
        """
        path = documents_directory() / f"{api}.{version}.json"
        if not path.is_file():
            raise EmulatorError(f"there is no discovery document {path.name}")
        return Contract(as_object(json.loads(path.read_bytes())))

    def match(self, http_method: str, path: str) -> str | None:
        """The id of the method with that HTTP method and (percent-encoded) path, or ``None``."""
        for pattern, method_id in self._patterns.get(http_method, ()):
            if pattern.fullmatch(path):
                return method_id
        return None

    @functools.cached_property
    def _patterns(self) -> dict[str, list[tuple[re.Pattern[str], str]]]:
        patterns: dict[str, list[tuple[re.Pattern[str], str]]] = {}
        for method in self._methods.values():
            entries = patterns.setdefault(method.http_method, [])
            entries += [(compile_template(path), method.method_id) for path in method.paths]
        return patterns

    def address(self, method_id: str) -> tuple[str, str]:
        """HTTP method and path template of ``method_id`` for plain JSON.

        Raises:
            KeyError: the API does not have that method.
        """
        method = self._methods[method_id]
        return method.http_method, method.paths[0]

    def takes_body(self, method_id: str) -> bool:
        """Whether the method has a request body."""
        return bool(self._methods[method_id].request)

    def methods(self) -> tuple[str, ...]:
        """Ids of all methods, in the document's order."""
        return tuple(self._methods)

    def check_query(self, method_id: str, query: Mapping[str, str]) -> None:
        """Refuse query parameters that the method does not have or cannot read."""
        method = self._methods[method_id]
        for name, value in query.items():
            if name in method.parameters:
                _check_parameter(name, value, child(method.parameters, name))
            elif name not in self._common and self.api not in _LENIENT_QUERY:
                raise _bad_query(name)

    def check_body(self, method_id: str, body: JsonObject) -> JsonObject:
        """``body`` without output-only fields.

        Raises:
            CloudError: 400 INVALID_ARGUMENT in Google's wording.
        """
        method = self._methods[method_id]
        checker = BodyChecker(
            self._schemas,
            method_id=method_id,
            # A PATCH names its fields in updateMask: what is not sent stays as it is.
            require=method.http_method != "PATCH",
            keep_null=self.api in _NULL_CLEARS,
        )
        return checker.check(method.request, body)

    def visible(self, schema: str, value: JsonObject) -> JsonObject:
        """``value`` with only the fields that ``schema`` of this version has, recursively."""
        return BodyChecker(self._schemas, method_id="", require=False).visible(schema, value)


@functools.cache
def documents_directory() -> Path:
    """Where the discovery documents are.

    Raises:
        EmulatorError: ``google-api-python-client`` is not installed.
    """
    spec = importlib.util.find_spec("googleapiclient")
    if spec is None or spec.origin is None:
        raise EmulatorError(
            "the embedded cloud needs Google's discovery documents",
            hint="pip install 'tpuflex[embedded]'",
        )
    return Path(spec.origin).parent / "discovery_cache" / "documents"


def _walk(node: JsonObject) -> Iterator[JsonObject]:
    for method in child(node, "methods").values():
        yield as_object(method)
    for resource in child(node, "resources").values():
        yield from _walk(as_object(resource))


def _method(entry: JsonObject, service_path: str) -> _Method:
    path = text(entry, "flatPath") or text(entry, "path")
    parameters = child(entry, "parameters")
    if any(text(as_object(each), "pattern").endswith("/.*$") for each in parameters.values()):
        # The flat path does not say that the last parameter is the rest of the path.
        path = re.sub(r"\}(?=[^{}]*$)", "*}", path)
    paths = [f"/{service_path}{path}"]
    uploads = child(child(entry, "mediaUpload"), "protocols")
    paths += [text(as_object(protocol), "path") for protocol in uploads.values()]
    if flag(entry, "useMediaDownloadService"):
        paths.append(f"/download{paths[0]}")
    return _Method(
        method_id=text(entry, "id"),
        http_method=text(entry, "httpMethod"),
        paths=tuple(_PARAMETER.sub(_template_parameter, path) for path in paths),
        parameters=parameters,
        request=text(child(entry, "request"), "$ref"),
    )


def _template_parameter(parameter: re.Match[str]) -> str:
    """``{nodesId}`` of a flat path, or ``{+node}``, as ``{node}``."""
    name, star = parameter[1].removesuffix("*"), parameter[1].endswith("*") * "*"
    name = re.sub(r"iesId$", "y", name)
    return f"{{{name.removesuffix('sId')}{star}}}"


def compile_template(template: str) -> re.Pattern[str]:
    """The regular expression of a path template, with a group for each parameter.

    A parameter is one path segment, or several if its name has a star, or its part before a
    ``:verb``, which the digest of an image is not. The path is matched as sent:
    an encoded slash in an object's name stays in its segment.
    """
    # Every second part is the name of a parameter.
    parts = _PARAMETER.split(template)
    return re.compile(
        "".join(_group(part) if index % 2 else re.escape(part) for index, part in enumerate(parts))
    )


def _group(parameter: str) -> str:
    if parameter.endswith("*"):
        return f"(?P<{parameter[:-1]}>[^:]+)"
    return f"(?P<{parameter}>[^/:]+{_DIGEST})"


def _check_parameter(name: str, value: str, parameter: JsonObject) -> None:
    kind = text(parameter, "type")
    enum = texts(parameter, "enum")
    integer = kind == "integer" and not re.fullmatch(r"-?\d+", value)
    boolean = kind == "boolean" and value.lower() not in _TRUE_FALSE
    if integer or boolean or (enum and value not in enum):
        raise invalid_argument(
            f"Invalid value at '{snake(name)}' ({_type_name(parameter)}), \"{value}\""
        )


def _type_name(parameter: JsonObject) -> str:
    names = {"boolean": "TYPE_BOOL", "integer": "TYPE_INT32"}
    return names.get(text(parameter, "type"), "TYPE_ENUM")


def _bad_query(name: str) -> Exception:
    message = (
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
    )
    return invalid_argument(message, [bad_request(description=message)])
