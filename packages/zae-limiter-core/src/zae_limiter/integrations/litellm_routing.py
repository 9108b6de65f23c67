"""What a call of LiteLLM's proxy may reach: the fields that a client may send, and the resource of each deployment.

A client must not reach a model whose limit is spent. LiteLLM lets a request choose more than its ``model``: fallbacks,
routers of its own, retries, bodies for the provider, deployments by their ids, aliases, wildcards; each release adds
some. So there is a list of the fields that choose nothing, and any other is refused. A call counts for the deployment
that LiteLLM has really chosen, under the name of the first group of the configuration that has it, whatever name a
client has used. A list of forbidden fields was tried and dropped: on both releases there was a way around it.

Of some calls LiteLLM does not tell which models they reach: what it passes on as it is, batches, calls that name none.

What a request only names is not counted before its answer is there: an answer that comes later, turns and files
that the provider keeps. Such a request is refused unless the owner of the proxy has named it, too.

This module is pure, and imports nothing of LiteLLM.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

# Of completions, messages, responses, embeddings and ranks, images and speech, and of Gemini; the client's own notes,
# and what endpoints of the proxy and header fields of the client add to the body
_FIELDS: Final = """
model messages prompt suffix max_tokens max_completion_tokens temperature top_p n stream stream_options stop
logprobs top_logprobs echo best_of presence_penalty frequency_penalty repetition_penalty logit_bias seed user
functions function_call tools tool_choice parallel_tool_calls response_format modalities audio prediction
reasoning_effort reasoning verbosity service_tier store web_search_options prompt_cache_key
prompt_cache_retention safety_identifier
system stop_sequences top_k min_p thinking output_format output_config context_management container
input instructions max_output_tokens max_tool_calls text truncation include previous_response_id conversation
background
encoding_format dimensions input_type query documents top_n return_documents rank_fields max_chunks_per_doc
size quality style output_compression moderation partial_images image mask file voice speed language
timestamp_granularities chunking_strategy
contents systemInstruction system_instruction generationConfig generation_config safetySettings safety_settings
toolConfig tool_config
metadata litellm_metadata
litellm_call_id litellm_trace_id litellm_session_id _litellm_raw_sse_stream _litellm_skip_openai_stream_done
"""
FIELDS: Final = frozenset(_FIELDS.split())
OF_HEADERS: Final = frozenset(
    {"num_retries"}
)  # what the proxy takes from a header, though it makes more requests of one

# What some releases leave out of the body that they keep, though the client has sent it
_TRANSPORT: Final = frozenset({"headers", "provider_specific_header", "api_key"})
_SENT: Final = "credential_fields"  # those of them that it has sent, in newer releases
_OF_PROXY: Final = "litellm_trusted_callback_vars"  # what the proxy adds of its callbacks
_ANTHROPIC: Final = frozenset({"anthropic-version", "anthropic-beta"})  # header fields that the proxy passes on

MOST_PARTS: Final = 1_000_000
# What a request names and does not have: fields that do so by themselves, and names of ids at any depth
_ELSEWHERE: Final = frozenset({"background", "previous_response_id", "conversation"})
_OF_IDS: Final = """
file_id file_ids vector_store_ids
fileUri file_uri cachedContent cached_content fileSearchStoreNames file_search_store_names
"""
_IDS: Final = frozenset(_OF_IDS.split())
_REFERENCE: Final = "item_reference"
_SCHEMAS: Final = """
parameters input_schema schema parametersJsonSchema parameters_json_schema responseSchema response_schema
responseJsonSchema response_json_schema
"""
_NAMED_BY_CLIENTS: Final = frozenset(
    {"metadata", "litellm_metadata", "functionCall", "function_call", "response", *_SCHEMAS.split()}
)

_SESSIONS: Final = ("realtime", "websocket")  # any number of answers to one request
_NOTES: Final = frozenset(
    {"metadata", "litellm_metadata", "proxy_server_request", *(name for name in FIELDS if "litellm_" in name)}
)

_PASSED_ON: Final = frozenset({"pass", "passthrough", "batch"})  # a model in the body is not all that they reach
_READING: Final = frozenset({"get", "list", "retrieve", "delete", "cancel", "status", "video_content"})
_MANAGING: Final = _READING | {"file", "files", "store", "stores", "moderation"}


class RoutingError(Exception):
    """The request asks for something that the limits could not see."""


class ConfigurationError(Exception):
    """The configuration's models do not say which limits hold."""


def is_managing(call_type: str) -> bool:
    """Whether a call reads or keeps what is stored, or is free, so that it needs no limit if it names no model."""
    name = call_type.removeprefix("a")
    return not _MANAGING.isdisjoint({name, *name.split("_")})


def hides_models(data: Mapping[str, Any], call_type: str) -> bool:
    """Whether the models that a call reaches are not those that it names."""
    passed_on = not _PASSED_ON.isdisjoint(call_type.split("_")) and not is_managing(call_type)
    return passed_on or not data.get("model")


def check_call(call_type: str) -> None:
    """Raise ``RoutingError`` for a call that begins a session."""
    if any(name in call_type for name in _SESSIONS):
        raise RoutingError(f"{call_type}: a session has any number of answers, and the limits would see one")


def check_fields(data: Mapping[str, Any], more: Iterable[str] = (), of_callbacks: Collection[str] = ()) -> None:
    """Raise ``RoutingError`` for a field that may choose a model, an endpoint or the number of requests, or that stands
    for what the request does not have.

    ``data`` is what the proxy's hook gets: the proxy keeps the body of the client in it, and adds fields of its own.
    Some releases leave out of that body what may be a credential: of the transport, and ``of_callbacks``.
    """
    request = data.get("proxy_server_request")
    request = request if isinstance(request, Mapping) else {}
    body = request.get("body")
    if isinstance(body, Mapping):
        sent = body.keys() | (data.keys() & OF_HEADERS) | _left_out(data, request, of_callbacks)
    else:
        body, sent = data, set(data)
    for field in sorted(sent - FIELDS - set(more)):
        raise RoutingError(f"{field}: this proxy passes on no such field: it may choose a model beside its limits")
    for field in sorted(_elsewhere(body) - set(more)):
        raise RoutingError(f"{field}: this proxy admits no such request: its limits cannot see what that stands for")


def _left_out(data: Mapping[str, Any], request: Mapping[str, Any], of_callbacks: Collection[str]) -> set[str]:
    """Return the fields that the client has sent, and that the proxy has left out of the body that it keeps.

    What the proxy itself adds under these names is not the client's. Releases that do not tell who has sent a field
    replace the client's by header fields of Anthropic, if the request has some.
    """
    if _SENT in request:
        return {*request[_SENT], *(data.keys() & set(of_callbacks)) - set(data.get(_OF_PROXY) or ())}
    replaced = not _ANTHROPIC.isdisjoint(request.get("headers") or ())
    return (data.keys() & _TRANSPORT) - ({"provider_specific_header"} if replaced else set())


def _elsewhere(body: Mapping[str, Any]) -> set[str]:
    """Return the names of what a request stands for and does not have: the provider keeps it, or sends it later."""
    found = {name for name in _ELSEWHERE if body.get(name)}
    if isinstance(body.get("prompt"), Mapping):
        found.add("prompt")  # one that is stored at the provider
    left: list[Any] = [body]
    parts = 0
    while left:
        value, parts = left.pop(), parts + 1
        if parts > MOST_PARTS:
            raise RoutingError(f"the request has more than {MOST_PARTS} parts")
        if isinstance(value, Mapping):
            found |= {name for name in _IDS & value.keys() if value[name]}
            audio, kind = value.get("audio"), value.get("type")
            if isinstance(audio, Mapping) and audio.get("id"):
                found.add("audio")  # of an earlier answer
            if kind == _REFERENCE:
                found.add(_REFERENCE)
            own = {"input"} if isinstance(kind, str) and kind.endswith("tool_use") else frozenset[str]()
            left += [part for name, part in value.items() if name not in _NAMED_BY_CLIENTS and name not in own]
        elif isinstance(value, list):
            left += value
    return found


def request_of(data: Mapping[str, Any], more: Collection[str] = (), *, hidden: bool) -> dict[str, Any]:
    """Return the client's request, without its notes, which no model reads, and without what the proxy adds.

    ``hidden``: ``check_fields`` was not asked, so that a field may have any name.
    """
    known = data.keys() if hidden else FIELDS.union(more)
    return {name: data[name] for name in data if name in known and name not in _NOTES}


def models_of(router: Any) -> "Models":
    """Return the models of a router as it is now, built anew only where its list has changed.

    A proxy changes the list in place, so its content is the key. Raises ``ConfigurationError``.
    """
    aliases = (router.model_group_alias or {}).items()
    return _built(
        tuple([deployment["model_name"] for deployment in router.model_list]),
        tuple([deployment["litellm_params"]["model"] for deployment in router.model_list]),
        tuple([deployment["model_info"]["id"] for deployment in router.model_list]),
        tuple([(name, to["model"] if isinstance(to, Mapping) else to) for name, to in aliases]),
    )


class Models:
    """The deployments of a router, each under the name of the first group that has its model.

    ``names`` (of groups), ``models`` and ``ids`` have an entry for each deployment; ``aliases`` map to groups.
    Raises ``ConfigurationError`` where a group is a wildcard, or shares some of its models with another group: then
    the limit that a call counts for is unknown.
    """

    def __init__(
        self, names: Sequence[str], models: Sequence[str], ids: Sequence[object], aliases: Iterable[tuple[str, str]]
    ) -> None:
        self._aliases = dict(aliases)
        self._groups: dict[str, str] = {}
        self._of_deployment: dict[str, str] = {}
        self._of_model: dict[str, str] = {}
        groups: dict[str, set[str]] = {}
        for name, model in zip(names, models, strict=True):
            groups.setdefault(name, set()).add(model)
        for name, of_group in groups.items():
            self._add_group(name, of_group, groups)
        for name, number in zip(names, ids, strict=True):
            self._of_deployment[str(number)] = self._groups[name]

    def resource_of_name(self, name: str) -> str:
        """Return the resource of a group, an alias or a deployment that a client names. Raises ``RoutingError``."""
        group = self._aliases.get(name, name)
        found = self._groups.get(group) or self._of_deployment.get(group) or self._of_model.get(group)
        if found is None:
            raise RoutingError("model: the configuration of this proxy has no model of that name")
        return found

    def resource_of_deployment(self, deployment: Mapping[str, Any]) -> str:
        """Return the resource of the deployment that LiteLLM has chosen. Raises ``RoutingError`` for an unknown one."""
        found = self._of_deployment.get(str((deployment.get("model_info") or {}).get("id")))
        found = found or self._of_model.get(str(deployment.get("model")))
        if found is None:
            raise RoutingError("model: the call goes to a deployment that is not in the configuration of this proxy")
        return found

    def _add_group(self, name: str, models: set[str], groups: Mapping[str, set[str]]) -> None:
        wild = next((each for each in (name, *sorted(models)) if "*" in each), None)
        if wild is not None:
            raise ConfigurationError(f"the route {wild} admits any model: give RateLimits a resource function")
        first = {self._of_model[model] for model in models if model in self._of_model}
        if first and not all(groups[other] == models for other in first):
            shared = f"{name} and {min(first)} share some of their models, and not all"
            raise ConfigurationError(f"{shared}: give RateLimits a resource function that says which limit counts")
        self._groups[name] = min(first, default=name)
        for model in models:
            self._of_model.setdefault(model, self._groups[name])


_built = lru_cache(maxsize=2)(Models)  # the proxy has one router
