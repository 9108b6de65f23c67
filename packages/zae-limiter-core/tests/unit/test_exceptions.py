import json
import math
import pickle
import traceback
from dataclasses import replace

import pytest

from zae_limiter import exceptions
from zae_limiter.exceptions import (
    CertificateError,
    ClientTooOldError,
    ContentionError,
    EntityError,
    EntityExistsError,
    EntityHasChildrenError,
    EntityNotFoundError,
    EventLoopError,
    IdempotencyKeyError,
    InfrastructureError,
    InfrastructureNotFoundError,
    InvalidIdentifierError,
    InvalidNameError,
    LeaseExpiredError,
    NamespaceNotFoundError,
    NamespaceStateError,
    NoUpgradePathError,
    OlderClientsError,
    PriceMissing,
    RateLimitError,
    RateLimiterUnavailable,
    RepositoryClosedError,
    StackTooOldError,
    StaleEntityError,
    StaleStateError,
    StoreRefusedError,
    UsageMissing,
    ValidationError,
    VersionError,
    ZAELimiterError,
)
from zae_limiter.values.limit_status import LimitStatus
from zae_limiter.values.limits import Limit
from zae_limiter.values.refusal import LaterStatuses, RateLimitExceeded


def status(name: str, *, retry_after: float, available: int = 0, requested: int = 1) -> LimitStatus:
    limit = Limit.per_minute(name, 10)
    return LimitStatus("e", "r", name, limit, available, requested, retry_after > 0, retry_after)


EXCEEDED = RateLimitExceeded([status("rpm", retry_after=1.25), status("tpm", retry_after=0, available=7)])
EVERY: list[ZAELimiterError] = [
    ValidationError("f", 1, "why"),
    InvalidIdentifierError("f", "a#b", "why"),
    IdempotencyKeyError("f", None, "why"),
    InvalidNameError("f", None, "why"),
    EXCEEDED,
    LeaseExpiredError("e", "r"),
    EntityNotFoundError("e"),
    EntityExistsError("e"),
    EntityHasChildrenError("e", 2),
    StaleEntityError("e", 3, 4),
    RateLimiterUnavailable("no answer"),
    InfrastructureNotFoundError("my-app"),
    StoreRefusedError("AccessDenied"),
    CertificateError("host:443", "certificate has expired"),
    ContentionError("others changed the bucket"),
    RepositoryClosedError(),
    EventLoopError(),
    NamespaceNotFoundError("ns"),
    NamespaceNotFoundError("ns", "id"),
    NamespaceStateError("id", "it is in use"),
    StaleStateError(7, 8),
    ClientTooOldError("my-app", "0.1.0", "0.2.0"),
    NoUpgradePathError("my-app", "its version record has no 'core_version'"),
    OlderClientsError("my-app", "0.1.0", "0.2.0"),
    StackTooOldError("my-app", 1, 2),
    UsageMissing(),
    PriceMissing("no price"),
]


def test_every_exception_is_among_those_tested_here() -> None:
    defined = {cls for cls in vars(exceptions).values() if isinstance(cls, type) and issubclass(cls, ZAELimiterError)}
    abstract = {ZAELimiterError, RateLimitError, EntityError, InfrastructureError, VersionError}
    abstract |= {exceptions._InvalidNamingError}
    assert (defined - abstract) | {RateLimitExceeded} == {type(error) for error in EVERY}


@pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)
def test_a_pickled_exception_comes_back_with_its_fields(error: ZAELimiterError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error) != ""


def test_they_form_one_tree() -> None:
    assert issubclass(ValidationError, ValueError)
    kinds = (
        RateLimitError,
        EntityError,
        InfrastructureError,
        VersionError,
        ValidationError,
        UsageMissing,
        PriceMissing,
    )
    for error in EVERY:
        assert isinstance(error, kinds)


def test_a_validation_error_names_the_field_the_value_and_the_way_out() -> None:
    error = ValidationError("capacity", -1, "must be at least 1")
    assert (error.field, error.value, error.problem) == ("capacity", -1, "must be at least 1")
    assert str(error) == "capacity -1: must be at least 1"
    assert len(str(ValidationError("id", "x" * 10_000, "is too long"))) < 120
    assert len(str(ValidationError("consume[" + "x" * 10_000, -1, "must be positive"))) < 1_100


TOKEN = "Bearer sk-live-4f9a8b7c6d5e"


@pytest.mark.parametrize("value", [TOKEN, TOKEN + "x" * 1000, [TOKEN], {"authorization": TOKEN}, TOKEN.encode()])
@pytest.mark.parametrize("kind", [InvalidIdentifierError, InvalidNameError])
def test_an_error_of_a_name_shows_no_secret_that_was_given_as_one(kind: type[ValidationError], value: object) -> None:
    error = kind("entity_id", value, "must be text")
    assert error.value == value
    for told in (str(error), repr(error), "".join(traceback.format_exception(error))):
        assert "sk-live" not in told
        assert "entity_id" in told
    if isinstance(value, str):
        assert str(error) == f"entity_id 'Bearer'... ({len(value)} characters): must be text"


@pytest.mark.parametrize(("value", "shown"), [("a b", "'a b'"), ("x" * 12, f"'{'x' * 12}'"), (7, "7"), (None, "None")])
def test_an_error_of_a_name_shows_a_short_one(value: object, shown: str) -> None:
    assert str(InvalidNameError("limit", value, "is wrong")) == f"limit {shown}: is wrong"


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "shown"),
    [(nested(100_000), "<list>"), (10**5000, "<int>"), ("x\n" * 99, "'x\\nx")],
    ids=["deep", "large", "long"],
)
def test_a_validation_error_shows_any_value_on_one_short_line(value: object, shown: str) -> None:
    told = str(ValidationError("amount", value, "must be a whole number"))
    assert told.startswith(f"amount {shown}")
    assert (told.isprintable(), len(told) < 150) == (True, True)


def test_exceeded_parts_what_is_short_from_what_would_have_passed() -> None:
    assert [each.limit_name for each in EXCEEDED.violations] == ["rpm"]
    assert [each.limit_name for each in EXCEEDED.passed] == ["tpm"]
    assert EXCEEDED.primary_violation is EXCEEDED.violations[0]


def test_exceeded_waits_for_the_violation_that_takes_longest() -> None:
    error = RateLimitExceeded([status("a", retry_after=1.25), status("b", retry_after=3), status("c", retry_after=2)])
    assert error.primary_violation.limit_name == "b"
    assert error.retry_after_seconds == 3


def test_the_header_is_whole_seconds_rounded_up() -> None:
    assert EXCEEDED.retry_after_header == "2"
    assert RateLimitExceeded([status("a", retry_after=0.001)]).retry_after_header == "1"


def test_the_message_says_how_many_and_when() -> None:
    assert str(EXCEEDED) == "e/r: 1 rpm requested, 0 available; retry in 1.250 s"


@pytest.mark.parametrize(
    ("wait", "told"),
    [
        (math.inf, "which is blocked: the limit has a capacity of 0"),
        (44.8, "-45 available; retry in 44.800 s"),  # an amount of 0 of a limit in debt
    ],
)
def test_only_a_wait_without_end_is_called_blocked(wait: float, told: str) -> None:
    of = LimitStatus("e", "r", "rpm", Limit.per_minute("rpm", 0), -45, 0, True, wait)
    assert str(RateLimitExceeded([of])) == f"e/r: 0 rpm requested, {told}"


def test_what_can_never_pass_says_so_and_has_no_header() -> None:
    error = RateLimitExceeded([status("a", retry_after=math.inf, available=10, requested=11)])
    assert (
        str(error)
        == "e/r: 11 a requested, which can never pass: the limit holds at most 10; ask for less, or raise its burst"
    )
    assert error.retry_after_header is None
    assert error.as_dict()["retry_after_seconds"] is None


@pytest.mark.parametrize(
    "limit",
    [
        Limit.concurrent("a", 10),
        Limit.quota("a", 10, window=60),
        Limit.total("a", 10),
        Limit.per_day("a", 10, window="calendar", timezone="UTC"),
    ],
)
def test_a_limit_that_has_no_burst_is_not_told_to_raise_it(limit: Limit) -> None:
    error = RateLimitExceeded([LimitStatus("e", "r", "a", limit, 10, 11, True, math.inf)])
    assert str(error).endswith("the limit holds at most 10; ask for less, or raise its capacity")


def test_as_dict_is_plain_json_of_all_limits() -> None:
    plain = EXCEEDED.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["error"] == "rate_limit_exceeded"
    assert plain["retry_after_seconds"] == 1.25
    assert plain["limits"][0] == {
        "entity_id": "e",
        "resource": "r",
        "limit_name": "rpm",
        "capacity": 10,
        "burst": 10,
        "available": 0,
        "requested": 1,
        "exceeded": True,
        "shadow": False,
        "retry_after_seconds": 1.25,
    }
    assert [limit["exceeded"] for limit in plain["limits"]] == [True, False]


def of(entity_id: str, name: str, wait: float) -> LimitStatus:
    return replace(status(name, retry_after=wait), entity_id=entity_id)


def test_the_refusal_of_a_parent_names_it_the_path_to_it_and_only_what_is_short() -> None:
    statuses = [of("key-1", "rpm", 0), of("key-1", "tpm", 0), of("acme-corp", "rpm", 1.5), of("acme-corp", "tpm", 0)]
    error = RateLimitExceeded(statuses, "key-1")
    assert (error.entity_id, error.refused_by, error.resource) == ("key-1", "acme-corp", "r")
    assert error.path == ("key-1", "acme-corp")
    assert str(error) == "key-1 > acme-corp/r: 1 rpm requested, 0 available; retry in 1.500 s"
    plain = error.as_dict()
    assert {name: plain[name] for name in ("entity_id", "resource", "refused_by", "path", "exceeded")} == {
        "entity_id": "key-1",
        "resource": "r",
        "refused_by": "acme-corp",
        "path": ["key-1", "acme-corp"],
        "exceeded": [{"entity_id": "acme-corp", "resource": "r", "limit_name": "rpm"}],
    }


@pytest.mark.parametrize(
    ("statuses", "path"),
    [
        ([of("key-1", "rpm", 2), of("acme-corp", "rpm", 1)], ("key-1",)),
        ([of("key-1", "rpm", 1), of("acme-corp", "rpm", 2)], ("key-1", "acme-corp")),
        ([of("acme-corp", "tpd", 2)], ("key-1", "acme-corp")),
        ([of("key-1", "rpm", 0), of("acme-corp", "rpm", 1), of("group", "rpm", 2)], ("key-1", "acme-corp", "group")),
        ([of("key-1", "rpm", 0), of("acme-corp", "rpm", 2), of("group", "rpm", 1)], ("key-1", "acme-corp")),
        ([of("key-1", "rpm", 0), of("acme-corp", "rpm", 0)], ("key-1",)),
    ],
    ids=["own", "parent", "limit of the parent alone", "grandparent", "below it", "tokens came back"],
)
def test_the_path_ends_with_the_bucket_that_has_the_longest_wait(
    statuses: list[LimitStatus], path: tuple[str, ...]
) -> None:
    error = RateLimitExceeded(statuses, "key-1")
    assert (error.path, error.refused_by) == (path, path[-1])
    assert error.retry_after_seconds == max(each.retry_after_seconds for each in statuses)


def test_a_shadow_limit_that_is_short_binds_nothing() -> None:
    shadow = replace(of("key-1", "tpm", 9), limit=Limit.per_minute("tpm", 10, shadow=True))
    error = RateLimitExceeded([shadow, of("acme-corp", "rpm", 1)], "key-1")
    assert (error.refused_by, error.retry_after_seconds) == ("acme-corp", 1)
    assert error.as_dict()["exceeded"] == [{"entity_id": "acme-corp", "resource": "r", "limit_name": "rpm"}]


def test_a_missing_table_says_what_to_run() -> None:
    assert "zae-limiter deploy --name my-app" in str(InfrastructureNotFoundError("my-app"))


def test_a_refusal_whose_tokens_have_come_back_says_to_try_again() -> None:
    limit = Limit.per_minute("rpm", 10)
    refusal = RateLimitExceeded([LimitStatus("e", "r", "rpm", limit, 10, 1, exceeded=False, retry_after_seconds=0.0)])
    assert (refusal.retry_after_seconds, refusal.retry_after_header, refusal.violations) == (0.0, "0", ())
    assert str(refusal) == "e/r: 1 rpm requested, 10 available; retry in 0.000 s"


def test_a_refusal_is_shown_as_its_message() -> None:
    error = RateLimitExceeded([status("a", retry_after=2.0, available=10, requested=11)] * 30)
    assert repr(error) == f"RateLimitExceeded({str(error)!r})"
    assert len(repr(error)) < 120


def test_what_a_queue_made_of_the_statuses_is_no_refusal() -> None:
    """Celery's results in JSON give an exception its arguments as texts, and show them if it takes none of them."""
    text = repr(RateLimitExceeded([status("rpm", retry_after=1)]).args[0])
    with pytest.raises(TypeError, match="statuses must be LimitStatus objects, not a text"):
        RateLimitExceeded(text, "user")  # type: ignore[arg-type]


def test_statuses_that_nobody_has_read_are_made_once_and_make_no_difference() -> None:
    made: list[int] = []

    def make() -> list[LimitStatus]:
        made.append(1)
        return [status("rpm", retry_after=1)]

    later = RateLimitExceeded(LaterStatuses(make, [("e", "r")]), "e", "r")
    at_once = RateLimitExceeded([status("rpm", retry_after=1)], "e", "r")
    assert not made
    copy = pickle.loads(pickle.dumps(later))
    for each in (later, copy):
        assert (each.args, each.statuses, str(each), repr(each)) == (
            at_once.args,
            at_once.statuses,
            str(at_once),
            repr(at_once),
        )
        assert each.as_dict() == at_once.as_dict()
    assert vars(copy) == vars(at_once)
    assert made == [1]
