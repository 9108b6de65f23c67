"""What a call of LiteLLM's proxy may reach, by its kind and the fields of its body."""

from typing import Any

import pytest

from zae_limiter.integrations.litellm_routing import (
    RoutingError,
    check_call,
    check_fields,
    hides_models,
    is_managing,
    request_of,
)

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


LEFT_OUT: Any = [
    ("headers", {"x-model": "dear"}),
    ("provider_specific_header", {"custom_llm_provider": "openai", "extra_headers": {"x-model": "dear"}}),
    ("api_key", "sk-of-the-client"),
]


@pytest.mark.parametrize(("field", "value"), LEFT_OUT)
@pytest.mark.parametrize("tells", [True, False])
def test_what_the_proxy_leaves_out_of_the_body_is_refused_unless_the_owner_names_it(
    field: str, value: object, *, tells: bool
) -> None:
    request = {"body": {"model": "plain"}, "headers": {"authorization": "Bearer sk-1", "x-model": "dear"}}
    sent = {"model": "plain", field: value, "proxy_server_request": {**request, **_told(field, tells=tells)}}
    with pytest.raises(RoutingError, match=f"^{field}: "):
        check_fields(sent)
    check_fields(sent, [field])


@pytest.mark.parametrize("tells", [True, False])
def test_header_fields_that_the_proxy_itself_adds_are_not_the_client_s(*, tells: bool) -> None:
    fields = {"authorization": "Bearer sk-1", "anthropic-version": "2023-06-01"}
    added = {"provider_specific_header": {"extra_headers": fields}}
    check_fields(
        {**added, "proxy_server_request": {"body": {"model": "plain"}, "headers": fields, **_told(tells=tells)}}
    )
    if tells:
        check_fields({"headers": fields, "proxy_server_request": {"body": {"model": "plain"}, **_told(tells=tells)}})


def test_fields_of_callbacks_are_refused_and_those_of_the_owner_s_teams_are_not() -> None:
    sent = {"langfuse_host": "https://client", "proxy_server_request": {"body": {}, **_told(tells=True)}}
    with pytest.raises(RoutingError, match="langfuse_host"):
        check_fields(sent, (), {"langfuse_host"})
    check_fields({**sent, "litellm_trusted_callback_vars": {"langfuse_host": "https://team"}}, (), {"langfuse_host"})


def _told(*fields: str, tells: bool) -> dict[str, Any]:
    return {"credential_fields": fields} if tells else {}


def test_gemini_s_fields_pass_and_those_that_the_proxy_adds_for_it() -> None:
    body = {"contents": [], "systemInstruction": {}, "generationConfig": {"maxOutputTokens": 5}, "toolConfig": {}}
    added = {"litellm_session_id": "1", "litellm_trace_id": "1", "_litellm_raw_sse_stream": True}
    sent = {"model": "plain", **body, **added, "proxy_server_request": {"body": {**body, **added}}}
    check_fields(sent)
    assert request_of(sent, hidden=False) == {"model": "plain", **body}


@pytest.mark.parametrize("call_type", ["_arealtime", "_aresponses_websocket", "acreate_realtime_client_secret"])
def test_a_session_has_any_number_of_answers(call_type: str) -> None:
    check_call("aresponses")
    with pytest.raises(RoutingError, match="any number of answers"):
        check_call(call_type)


FILE: Any = {"type": "input_file", "file_id": "file-1"}
ELSEWHERE: Any = [
    ("background", {"background": True}),
    ("background", {"background": "false"}),
    ("previous_response_id", {"previous_response_id": "resp_1"}),
    ("conversation", {"conversation": {"id": "conv_1"}}),
    ("prompt", {"prompt": {"id": "pmpt_1", "variables": {}}}),
    ("file_id", {"input": [{"role": "user", "content": [FILE]}]}),
    ("file_id", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]}),
    ("file_id", {"messages": [{"content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}]}]}),
    ("file_id", {"messages": [{"content": [{"type": "tool_result", "content": [{"source": {"file_id": "f"}}]}]}]}),
    ("vector_store_ids", {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1"]}]}),
    ("file_ids", {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}]}),
    ("audio", {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}),
    ("fileUri", {"contents": [{"parts": [{"fileData": {"fileUri": "files/1"}}]}]}),
    ("cachedContent", {"generationConfig": {"cachedContent": "cachedContents/1"}}),
    ("fileSearchStoreNames", {"tools": [{"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/1"]}}]}),
    ("item_reference", {"input": [{"type": "item_reference", "id": "msg_1"}]}),
]


@pytest.mark.parametrize(("name", "body"), ELSEWHERE)
def test_what_a_request_only_names_is_refused_unless_the_owner_names_it(name: str, body: dict[str, Any]) -> None:
    sent = {"model": "plain", "proxy_server_request": {"body": {"model": "plain", **body}}}
    with pytest.raises(RoutingError, match=f"^{name}: "):
        check_fields(sent)
    check_fields(sent, [name])


ITS_OWN: Any = [
    {"background": False, "previous_response_id": None, "conversation": None, "prompt": ["x"]},
    {"metadata": {"file_id": "of the client"}},
    {"tools": [{"function": {"parameters": {"properties": {"file_id": {"type": "string"}}}}}]},
    {"tools": [{"input_schema": {"properties": {"x": {"enum": [{"file_id": "x"}]}}}}]},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": {"file_id": "of a tool"}}]}]},
    {"contents": [{"parts": [{"functionCall": {"name": "f", "args": {"fileUri": "of a tool"}}}]}]},
    {"contents": [{"parts": [{"functionResponse": {"name": "f", "response": {"file_id": "of a tool"}}}]}]},
    {"generationConfig": {"responseSchema": {"properties": {"fileUri": {"type": "STRING"}}}}},
    {"input": [[1, 2], [3]], "audio": {"voice": {"id": "voice_1"}, "format": "wav"}},
]


@pytest.mark.parametrize("body", ITS_OWN)
def test_what_a_request_has_itself_passes(body: dict[str, Any]) -> None:
    check_fields({"model": "plain", "proxy_server_request": {"body": {"model": "plain", **body}}})
