from types import SimpleNamespace
from typing import Any

import pytest

from zae_limiter.integrations.litellm_routing import ConfigurationError, RoutingError, models_of


def deployment(group: str, model: str, number: int) -> dict[str, Any]:
    return {"model_name": group, "litellm_params": {"model": model}, "model_info": {"id": str(number)}}


@pytest.fixture
def router() -> Any:
    return SimpleNamespace(
        model_list=[deployment("plain", "openai/plain", 1), deployment("best", "openai/best", 2)],
        model_group_alias=None,
    )


def test_the_models_of_a_router_are_built_once(router: Any) -> None:
    models = models_of(router)
    assert models.resource_of_name("plain") == "plain"
    assert models_of(router) is models
    router.model_list = [dict(each) for each in router.model_list]
    assert models_of(router) is models


def test_a_deployment_that_comes_or_goes_is_seen_at_once(router: Any) -> None:
    with pytest.raises(RoutingError):
        models_of(router).resource_of_name("new")
    router.model_list.append(deployment("new", "openai/new", 3))
    assert models_of(router).resource_of_name("new") == "new"
    assert models_of(router).resource_of_deployment({"model_info": {"id": "3"}}) == "new"
    router.model_list.pop()
    with pytest.raises(RoutingError):
        models_of(router).resource_of_name("new")


def test_a_deployment_that_changes_where_it_is_is_seen_at_once(router: Any) -> None:
    assert models_of(router).resource_of_name("best") == "best"
    router.model_list[1]["litellm_params"]["model"] = "openai/plain"  # so that it draws on the limit of plain
    assert models_of(router).resource_of_name("best") == "plain"
    router.model_list[1]["model_name"] = "openai/*"
    with pytest.raises(ConfigurationError):
        models_of(router)


def test_an_alias_that_changes_is_seen_at_once(router: Any) -> None:
    models_of(router)
    router.model_group_alias = {"it": "plain", "hidden": {"model": "best", "hidden": True}}
    assert [models_of(router).resource_of_name(name) for name in ("it", "hidden")] == ["plain", "best"]
    router.model_group_alias["it"] = "best"
    assert models_of(router).resource_of_name("it") == "best"


def test_two_routers_have_their_own_models(router: Any) -> None:
    other = SimpleNamespace(model_list=[deployment("plain", "openai/other", 1)], model_group_alias={})
    for _ in range(2):
        assert models_of(router).resource_of_name("openai/plain") == "plain"
        assert models_of(other).resource_of_name("openai/other") == "plain"
        with pytest.raises(RoutingError):
            models_of(other).resource_of_name("openai/plain")
