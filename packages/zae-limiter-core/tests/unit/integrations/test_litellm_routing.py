"""What a call of LiteLLM's proxy may reach, by its kind and the fields of its body."""

from typing import Any

import pytest

from zae_limiter.integrations.litellm_routing import RoutingError, check_fields, hides_models, is_managing

READ = ["afile_content", "acreate_file", "aretrieve_batch", "acancel_batch", "alist_batches", "aget_responses"]
READ += ["adelete_responses", "avideo_content", "avector_store_search", "moderation", "alist_input_items"]
WORK = ["acompletion", "aresponses", "acreate_batch", "pass_through_endpoint", "arun_thread", "avideo_remix"]
WORK += ["_arealtime", "agenerate_content", "acreate_interaction", "asend_message", "unheard_of", ""]


@pytest.mark.parametrize("call_type", READ)
def test_what_reads_and_keeps_what_is_stored_needs_no_model(call_type: str) -> None:
    assert is_managing(call_type)


@pytest.mark.parametrize("call_type", WORK)
def test_what_may_have_a_model_work_hides_it_if_it_names_none(call_type: str) -> None:
    assert not is_managing(call_type)
    assert hides_models({"messages": []}, call_type)
    assert hides_models({"model": ""}, call_type)


@pytest.mark.parametrize("call_type", ["pass_through_endpoint", "allm_passthrough_route", "acreate_batch"])
def test_a_model_beside_what_is_passed_on_is_not_all_that_it_reaches(call_type: str) -> None:
    assert hides_models({"model": "cheap"}, call_type)


@pytest.mark.parametrize("call_type", ["acompletion", "aresponses", "moderation", "aretrieve_batch", "aimage_edit"])
def test_a_model_that_is_named_is_not_hidden(call_type: str) -> None:
    assert not hides_models({"model": "cheap"}, call_type)


def test_the_id_that_the_proxy_adds_to_a_body_is_no_field_of_the_client() -> None:
    body: dict[str, Any] = {"litellm_call_id": "1", "model": "plain", "prompt": "x"}
    check_fields({**body, "proxy_server_request": {"body": body}, "secret_fields": {}})
    with pytest.raises(RoutingError, match="fallbacks"):
        check_fields({"proxy_server_request": {"body": {**body, "fallbacks": ["dear"]}}})
