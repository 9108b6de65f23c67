from typing import Any

import pytest
from botocore.exceptions import (
    ConnectTimeoutError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOTokenLoadError,
)

from zae_limiter.engines.dynamodb.faults import no_client, read_fault, unsent
from zae_limiter.operations.errors import (
    ConditionFailed,
    Conflict,
    Denied,
    Invalid,
    NotApplied,
    OutcomeUnknown,
    Reason,
    ServerFault,
    StoreError,
    TableExists,
    TableMissing,
    Throttled,
    TransactionCancelled,
    Unreadable,
    Unrecognized,
    is_invalid,
)
from zae_limiter.operations.values import CreateTable, EnableTtl, Get, Key, Transact, Update

GET = Get(Key("p", "s"))
UPDATE = Update(Key("p", "s"))
ITEM = {"PK": {"S": "p"}, "SK": {"S": "s"}, "n": {"N": "1"}}


def response(code: str, status: int = 400, message: str = "why", **more: Any) -> dict[str, Any]:
    return {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}


@pytest.mark.parametrize(
    ("code", "status", "expected"),
    [
        ("ConditionalCheckFailedException", 400, ConditionFailed),
        ("429", 429, Throttled),
        ("408", 408, OutcomeUnknown),
        ("ProvisionedThroughputExceededException", 400, Throttled),
        ("ThrottlingException", 400, Throttled),
        ("RequestLimitExceeded", 400, Throttled),
        ("TransactionConflictException", 400, Conflict),
        ("TransactionInProgressException", 400, Conflict),
        ("ResourceInUseException", 400, Conflict),
        ("ResourceNotFoundException", 400, TableMissing),
        ("ValidationException", 400, Invalid),
        ("AccessDeniedException", 400, Denied),
        ("UnrecognizedClientException", 400, Denied),
        ("ExpiredTokenException", 403, Denied),
        ("InvalidSignatureException", 400, Denied),
        ("InvalidSignatureException", 500, Denied),
        ("RequestTimeTooSkewed", 403, Denied),
        ("RequestInTheFuture", 403, Denied),
        ("InvalidToken", 403, Denied),
        ("413", 413, NotApplied),
        ("SerializationException", 400, NotApplied),
        ("LimitExceededException", 400, Unrecognized),
        ("403", 403, Unrecognized),
        ("InternalServerError", 500, ServerFault),
        ("ServiceUnavailable", 503, ServerFault),
        ("502", 502, ServerFault),
    ],
)
def test_a_code_says_what_is_certain(code: str, status: int, expected: type[StoreError]) -> None:
    assert type(read_fault(GET, response(code, status))) is expected


@pytest.mark.parametrize("reasons", ["none", [7], [{"resource": "t"}], {"reason": "x"}, None])
def test_damaged_throttling_reasons_are_none(reasons: Any) -> None:
    fault = read_fault(UPDATE, response("RequestLimitExceeded", ThrottlingReasons=reasons))
    assert isinstance(fault, Throttled)
    assert fault.reasons == ()


def test_an_answer_that_does_not_tell_leaves_the_outcome_unknown() -> None:
    assert type(read_fault(GET, {})) is ServerFault


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("InvalidSignatureException", "Signature expired: 20150830T123600Z is now earlier than 20150830T124000Z"),
        (
            "InvalidSignatureException",
            "Signature not yet current: 20150830T123600Z is still later than 20150830T122000Z",
        ),
        ("RequestTimeTooSkewed", "The difference between the request time and the current time is too large."),
    ],
)
def test_a_clock_that_is_too_far_off_is_a_refusal_that_says_so(code: str, message: str) -> None:
    fault = read_fault(GET, response(code, message=message))
    assert type(fault) is Denied
    assert str(fault).startswith("this machine's clock is too far off")
    assert str(fault).endswith(message)


def test_a_wrong_secret_is_not_called_a_wrong_clock() -> None:
    assert "clock" not in str(read_fault(GET, response("InvalidSignatureException", message="does not match")))


def test_a_failed_condition_carries_the_item() -> None:
    fault = read_fault(UPDATE, response("ConditionalCheckFailedException", Item=ITEM))
    assert isinstance(fault, ConditionFailed)
    assert fault.item == {"PK": "p", "SK": "s", "n": 1}


@pytest.mark.parametrize("item", [{}, {"n": {"N": "1"}}, {**ITEM, "PK": {"S": "another"}}, {**ITEM, "PK": 1}, ["x"]])
def test_a_failed_condition_with_another_item_is_certain_and_damaged(item: Any) -> None:
    fault = read_fault(UPDATE, response("ConditionalCheckFailedException", Item=item))
    assert type(fault) is (NotApplied if item else ConditionFailed)


def test_a_failed_condition_with_an_item_that_no_record_is_names_its_key() -> None:
    fault = read_fault(UPDATE, response("ConditionalCheckFailedException", Item={**ITEM, "n": {"N": "1.5"}}))
    assert isinstance(fault, Unreadable)
    assert "'p', 's'" in str(fault)


def cancelled(*reasons: dict[str, Any], writes: int | None = None) -> StoreError | None:
    transact = Transact((UPDATE,) * (len(reasons) if writes is None else writes))
    return read_fault(transact, response("TransactionCanceledException", CancellationReasons=list(reasons)))


def test_a_cancelled_transaction_carries_a_reason_for_each_write() -> None:
    fault = cancelled(
        {"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": ITEM}, {"Code": "TransactionConflict"}
    )
    assert isinstance(fault, TransactionCancelled)
    assert fault.reasons == (
        Reason(None),
        Reason("ConditionalCheckFailed", {"PK": "p", "SK": "s", "n": 1}),
        Reason("TransactionConflict"),
    )


@pytest.mark.parametrize(
    ("code", "fault"),
    [("TransactionConflict", Conflict), ("ThrottlingError", Throttled), ("ProvisionedThroughputExceeded", Throttled)],
)
def test_a_transaction_that_only_others_hinder_may_be_asked_again(code: str, fault: type[Throttled]) -> None:
    assert issubclass(Conflict, Throttled)
    assert type(cancelled({"Code": "None"}, {"Code": code})) is fault


def test_a_cancellation_without_reasons_is_no_throttling() -> None:
    fault = cancelled(writes=2)
    assert isinstance(fault, TransactionCancelled)
    assert fault.reasons == (Reason("Unknown"),) * 2


def test_creating_a_table_that_is_there_says_so() -> None:
    assert type(read_fault(CreateTable(), response("ResourceInUseException"))) is TableExists


def test_switching_on_expiry_twice_is_no_error() -> None:
    twice = response("ValidationException", message="TimeToLive is already enabled")
    assert read_fault(EnableTtl(), twice) is None
    assert type(read_fault(GET, twice)) is Invalid
    assert type(read_fault(EnableTtl(), response("ValidationException"))) is Invalid


def test_no_repeat_succeeds_where_the_request_or_the_item_is_the_cause() -> None:
    assert is_invalid(Invalid("an operand has an incorrect type"))
    assert is_invalid(Unreadable("p", "s", "it has no 'rf'"))
    assert not is_invalid(NotApplied("ValidationException: as a proxy may call it"))


def test_the_text_of_a_server_is_shown_on_one_line_in_printable_characters() -> None:
    fault = read_fault(GET, response("X\x1b[2J", 400, message="a\nError: b\u202e\ud800" + "x" * 10_000))
    assert str(fault).isprintable()
    assert len(str(fault)) < 1100
    assert "a\\nError: b\\u202e\\ud800xx" in str(fault)


@pytest.mark.parametrize(
    ("error", "expected", "way_out"),
    [
        (NoRegionError(), NotApplied, "AWS_REGION"),
        (NoCredentialsError(), Denied, "AWS_PROFILE"),
        (PartialCredentialsError(provider="env", cred_var="secret"), Denied, "secret"),
        (ProfileNotFound(profile="nope"), NotApplied, "nope"),
        (SSOTokenLoadError(error_msg="expired"), Denied, "expired"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_what_is_wrong_before_anything_is_sent_is_no_outage_and_says_what_to_do(
    error: Exception, expected: type[StoreError], way_out: str
) -> None:
    assert type(unsent(error)) is expected
    assert way_out in str(unsent(error))
    assert type(no_client(error)) is expected


def test_an_error_of_a_connection_is_not_one_of_those() -> None:
    assert unsent(ConnectTimeoutError(endpoint_url="http://localhost")) is None


def test_a_message_ends_with_the_id_of_its_request_at_aws() -> None:
    def answer(request_id: str, code: str) -> Any:
        answer = response(code)
        answer["ResponseMetadata"]["HTTPHeaders"] = {"x-amzn-requestid": request_id}
        return answer

    codes = "ValidationException", "ThrottlingException", "AccessDeniedException", "ResourceNotFoundException", "New"
    for code in codes:
        assert str(read_fault(GET, answer("4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQN", code))).endswith(
            "why (request 4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQN)"
        )
        for bad in ("", "a\nb", "x" * 65, "a b", "\u00e9", "ABC\n"):
            assert str(read_fault(GET, answer(bad, code))).endswith("why")
