"""Sentences of others are told apart by the texts that were recorded of them."""

from __future__ import annotations

import pytest

from tpuflex.known_messages import SENTENCES

#: Which texts of others a sentence is found in as well: the wider of two, or the same words where
#: somebody else passes them on. What is asked first decides there.
ALSO_IN: dict[str, set[str]] = {
    "LOCK_HOLDER": {"LOCK_IN_BUCKET"},
    "PLUGIN_QUOTA": {
        "NO_QUOTA_PROJECT",
        "OUT_OF_QUOTA",
        "QUOTA_LIMIT",
        "RATE_LIMITED",
        "RESOURCE_QUOTA",
    },
    "PLUGIN_REFUSED": {
        "ENABLE_SERVICE_DENIED",
        "GCLOUD_REFUSED",
        "GET_POLICY_DENIED",
        "GET_SERVICE_DENIED",
        "KEY_REFUSED",
        "LIST_SERVICES_DENIED",
        "NOT_PERMITTED",
        "SECOND_FACTOR_WANTED",
        "SET_POLICY_DENIED",
    },
    "PLUGIN_FORBIDDEN": {
        "API_DISABLED",
        "ENABLE_SERVICE_DENIED",
        "GET_POLICY_DENIED",
        "GET_SERVICE_DENIED",
        "LIST_SERVICES_DENIED",
        "PLUGIN_REFUSED",
        "RETAINED",
        "SET_POLICY_DENIED",
    },
    "API_DISABLED": {"NOT_PERMITTED"},
    "OUT_OF_QUOTA": {
        "NO_QUOTA_PROJECT",
        "PLUGIN_QUOTA",
        "QUOTA_LIMIT",
        "RATE_LIMITED",
        "RESOURCE_QUOTA",
    },
    "ABOUT_BILLING": {"NO_BILLING_ACCOUNT"},
    "NOT_PERMITTED": {
        "API_DISABLED",
        "ENABLE_SERVICE_DENIED",
        "GCLOUD_REFUSED",
        "GET_POLICY_DENIED",
        "GET_SERVICE_DENIED",
        "KEY_REFUSED",
        "LIST_SERVICES_DENIED",
        "NO_BILLING_ACCOUNT",
        "PLUGIN_REFUSED",
        "SECOND_FACTOR_WANTED",
    },
    "UNSUPPORTED": {"NO_QUOTA_PROJECT"},
    "QUOTA_LIMIT": {"OUT_OF_QUOTA", "PLUGIN_QUOTA", "RESOURCE_QUOTA"},
    "RESOURCE_QUOTA": {"OUT_OF_QUOTA", "QUOTA_LIMIT"},
    "GCLOUD_REFUSED": {"GET_POLICY_DENIED"},
    "NO_CONNECTION": {"RETRYING"},
}


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_is_found_in_what_was_recorded(name: str) -> None:
    """In each of its texts."""
    sentence = SENTENCES[name]

    assert sentence.recorded
    assert [text for text in sentence.recorded if sentence.search(text) is None] == []


@pytest.mark.parametrize("name", SENTENCES)
def test_a_sentence_is_not_taken_for_another(name: str) -> None:
    """In no text of another one, but for what is known to overlap."""
    found = {
        other
        for other, sentence in SENTENCES.items()
        if other != name and any(SENTENCES[name].search(text) for text in sentence.recorded)
    }

    assert found == ALSO_IN.get(name, set())
