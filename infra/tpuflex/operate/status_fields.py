"""The fields of ``tpuflex status --json``, and what each means: scripts depend on them."""

from __future__ import annotations

from collections.abc import Mapping

#: The fields under ``slice`` of ``tpuflex status --json``, which stay as they are.
STATUS_FIELDS: Mapping[str, str] = {
    "queued_resource": "id of the queued resource",
    "zone": "its zone",
    "state": "Google's word for its state; NOT_FOUND where only its node is left",
    "lifecycle": "our word: waiting, provisioning, active, ended, failed, lost, deleting",
    "standing": "its row in the table above",
    "sentence": "the state in plain words",
    "error": "why it failed, in Google's words; or empty",
    "created": "when it was requested (RFC 3339); or null",
    "node": "full name of its node; null where there is none",
    "node_state": "Google's word for its node's state; empty where there is none",
    "health": "its node's health; or empty",
    "address": "the first host's internal address; or empty",
    "active_since": "when its node was made (RFC 3339); or null",
    "expires": "when Google ends the run (RFC 3339); null while it is not known",
    "gives_up": "when Google gives the request up (RFC 3339), while it waits; or null",
    "host": "the host's own report (phase, detail, error, timeline: when each"
    " phase began, ended: when image and weights ended, which go on at once, or null, isolation,"
    " weights: SHA-256 of the manifest that it fetched and checked, vllm_version, kv_cache:"
    " block_size, num_blocks, cache_dtype and tokens of the server, or null, and compile_cache:"
    " from, files, bytes and seconds of what was restored, compiled, saved_bytes, saved_seconds"
    " and problem, or null, and serving: what it says from READY on, or null: phase (serving,"
    " draining, degraded, failed), since and at in seconds since the epoch, running and waiting"
    " requests, drained, cut_off, reason, drains_at and ends_at (RFC 3339, or null) and restarts);"
    " null before the first",
    "unread": "why the host's report could not be read; or empty",
    "weights": "SHA-256 of the manifest of the weights that its node was made for; or empty",
    "state_id": "id of the state that made it, by its label; or null",
    "others": "further requests of the endpoint, a line of text each",
    "advice": "what to do, as in the table above",
}
