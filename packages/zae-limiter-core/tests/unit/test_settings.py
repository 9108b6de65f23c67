import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest

from zae_limiter import Repository, SyncRepository
from zae_limiter.exceptions import InvalidNameError, ValidationError
from zae_limiter.settings import AnyOptions, BuilderBase, Options
from zae_limiter.testing import ManualClock


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ZAEL_STACK", "ZAEL_STORE", "ZAEL_NAMESPACE", "ZAEL_TRANSPORT"):
        monkeypatch.delenv(name, raising=False)


def test_without_anything_said_there_are_defaults() -> None:
    assert (Options().stack_name, Options().namespace_name) == ("zae-limiter", "default")


def test_the_environment_comes_before_the_defaults_and_the_caller_before_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_STACK", "of-env")
    monkeypatch.setenv("ZAEL_NAMESPACE", "env")
    assert (Options().stack_name, Options().namespace_name) == ("of-env", "env")
    chosen = Options(stack="mine", namespace="own")
    assert (chosen.stack_name, chosen.namespace_name) == ("mine", "own")


@pytest.mark.parametrize("field", ["stack", "region", "endpoint_url", "profile"])
def test_who_names_a_stack_or_its_aws_does_not_get_the_file_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///of-env.db")
    assert str(Options().file) == "of-env.db"
    named: dict[str, Any] = {field: "mine"}
    assert Options(**named).file is None
    assert str(Options(store="sqlite:///mine.db", **named).file) == "mine.db"


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("config_cache_ttl", [-1, True, "60", float("nan"), float("inf"), 10**400, None]),
        ("rejection_staleness", [-0.1, False, "1", float("nan")]),
        ("connect_timeout", [0, -1, True, None]),
        ("read_timeout", [0, float("inf")]),
        ("bucket_ttl_multiplier", [-1, 1.5, True, None]),
        ("buckets_remembered", [0, 1.5, True]),
        ("max_connections", [0, "9"]),
        ("count_units", [1, "yes", None]),
        ("on_unavailable", ["", "deny", None]),
        ("transport", ["https", 1, ["http"]]),
        ("namespace", ["", "a b", "1st", "x" * 65, "_", 7]),
        *((field, [7, b"x", [], object]) for field in ("stack", "region", "endpoint_url", "profile")),
        *((field, ["no", 1, None]) for field in ("register", "create_table", "check_version")),
    ],
)
def test_a_bad_option_is_refused_by_its_name(field: str, bad: list[Any]) -> None:
    for value in bad:
        with pytest.raises(ValidationError, match=field):
            Options(**{field: value})


def test_a_bad_namespace_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_NAMESPACE", "a b")
    with pytest.raises(InvalidNameError):
        Options()


def test_the_environment_says_how_long_audit_events_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZAEL_AUDIT_RETENTION_DAYS", raising=False)
    assert Options().audit_days == 90
    for told, days in (("", 90), ("0", 0), ("400", 400)):
        monkeypatch.setenv("ZAEL_AUDIT_RETENTION_DAYS", told)
        assert Options().audit_days == days
    assert Options(audit_retention_days=7).audit_days == 7
    assert BuilderBase().audit_retention_days(0)._options.audit_days == 0


@pytest.mark.parametrize("told", ["-1", "1.5", "ninety", "\u0661", "\u00b2", "100000", " 90"])
def test_a_bad_audit_retention_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv("ZAEL_AUDIT_RETENTION_DAYS", told)
    with pytest.raises(
        ValidationError, match=r"ZAEL_AUDIT_RETENTION_DAYS .*must be a whole number of days, 0 to 99999"
    ):
        Options()
    assert Options(audit_retention_days=1).audit_days == 1


def test_a_bad_transport_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_TRANSPORT", "carrier pigeon")
    with pytest.raises(ValidationError, match=r"ZAEL_TRANSPORT 'carrier pigeon'.*http, sdk"):
        Options().store_options()
    assert BuilderBase().transport("http")._options.store_options()["transport"] == "http"


def test_flows_get_milliseconds() -> None:
    settings = Options(rejection_staleness=0.5, config_cache_ttl=2.5, bucket_ttl_multiplier=0).settings()
    assert (settings.staleness_ms, settings.config_ttl_ms, settings.ttl_multiplier) == (435, 2500, 0)


def test_a_builder_sets_one_option_at_a_time_and_checks_it() -> None:
    clock = ManualClock()
    builder = (
        BuilderBase()
        .stack("s")
        .region("eu-west-1")
        .endpoint_url("http://localhost:1")
        .namespace("n")
        .config_cache_ttl(5)
        .bucket_ttl_multiplier(3)
        .on_unavailable("allow")
        .create_table()
        .clock(clock)
    )
    assert builder._options == Options(
        stack="s",
        region="eu-west-1",
        endpoint_url="http://localhost:1",
        namespace="n",
        config_cache_ttl=5,
        bucket_ttl_multiplier=3,
        on_unavailable="allow",
        create_table=True,
        clock=clock,
    )
    with pytest.raises(ValidationError):
        BuilderBase().config_cache_ttl(-1)


FIELDS = {field.name: field for field in fields(Options)}
METHODS = [Repository.open, SyncRepository.open, Repository.in_memory, SyncRepository.in_memory]
OF_A_FILE = [Repository.sqlite, SyncRepository.sqlite]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_a_method_takes_every_option_once_with_its_type_and_default(method: Callable[..., object]) -> None:
    hints = get_type_hints(method)
    (by_keyword,) = get_args(hints.pop("options"))
    named = {name: parameter for name, parameter in inspect.signature(method).parameters.items() if name != "options"}
    elsewhere = {"store"} if method.__name__ == "in_memory" else set()
    assert sorted([*named, *by_keyword.__annotations__]) == sorted(FIELDS.keys() - elsewhere)
    del named["namespace"]  # ``None`` means the environment to ``open``; a repository in memory has no environment
    types = {name: hints[name] for name in named} | get_type_hints(by_keyword)
    assert types == {name: get_type_hints(Options)[name] for name in types}
    assert {name: parameter.default for name, parameter in named.items()} == {
        name: FIELDS[name].default for name in named
    }
    assert not by_keyword.__required_keys__


@pytest.mark.parametrize("method", OF_A_FILE, ids=lambda method: method.__qualname__)
def test_a_file_takes_the_options_that_mean_something_to_it(method: Callable[..., object]) -> None:
    (by_keyword,) = get_args(get_type_hints(method)["options"])
    types = get_type_hints(by_keyword)
    assert types == {name: get_type_hints(Options)[name] for name in types}
    of_aws = {"region", "endpoint_url", "profile", "credentials"}
    no_options = of_aws | {"transport", "max_connections", "create_table", "split_above"}
    named = {"namespace", "clock", "store"}
    assert types.keys() == FIELDS.keys() - no_options - named


def test_a_builder_may_set_any_option() -> None:
    assert get_type_hints(AnyOptions) == get_type_hints(Options)
