"""The embedded cloud's storage as the engine asks for it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

_VARIABLE = "STORAGE_EMULATOR_HOST"
_SCHEME = "http://"


def without_scheme(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for the engine: google-cloud-storage for Python wants ``STORAGE_EMULATOR_HOST``
    with ``http://``, and Go CDK, by which the engine keeps states in ``gs://`` buckets, writes that
    before it itself (``openBucket`` in its ``blob/gcsblob/gcsblob.go``) and would ask the host
    ``http``."""
    host = environ.get(_VARIABLE, "")
    return {**environ, _VARIABLE: host.removeprefix(_SCHEME)} if host else {**environ}
