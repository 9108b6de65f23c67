import pickle

import pytest

from zae_limiter_manifest import CLI, OwnerError, stack_owner, taken_from

STACK = stack_owner("arn:aws:cloudformation:us-east-1:1:stack/limits/0", "TenantLimits")


@pytest.mark.parametrize("owner", [None, CLI])
@pytest.mark.parametrize("take_over", [True, False])
def test_a_free_namespace_and_ones_own_are_taken_from_nobody(owner: str | None, *, take_over: bool) -> None:
    assert taken_from(owner, CLI, take_over=take_over) is None


def test_a_second_owner_is_refused_and_told_the_way_out() -> None:
    with pytest.raises(OwnerError) as caught:
        taken_from(CLI, STACK)
    assert (caught.value.owner, caught.value.requester) == (CLI, STACK)
    assert str(caught.value).startswith("cli manages the limits of this namespace, not stack:arn:")
    assert "--take-over" in str(caught.value)
    assert "TakeOver: true" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_second_owner_that_says_so_takes_over() -> None:
    assert taken_from(STACK, CLI, take_over=True) == STACK


def test_two_resources_of_a_stack_are_two_owners() -> None:
    assert stack_owner("s", "A") != stack_owner("s", "B")
