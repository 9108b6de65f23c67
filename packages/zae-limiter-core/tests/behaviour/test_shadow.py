"""Shadow limits refuse nobody, say what they would have refused, and go into no debt."""

from zae_limiter import Limit, SyncRateLimiter, SyncRepository

RPM, TPM = Limit.per_minute("rpm", 5, shadow=True), Limit.per_minute("tpm", 100)


def test_a_shadow_limit_lets_through_and_says_what_it_would_have_refused() -> None:
    with SyncRateLimiter(SyncRepository.in_memory(), default_limits=[RPM, TPM]) as limiter:
        found = []
        for _ in range(8):
            with limiter.acquire("u", "gpt", {"rpm": 1, "tpm": 1}) as lease:
                found.append([status.limit_name for status in lease.shadowed])
        assert found == [[]] * 5 + [["rpm"]] * 3
        bucket = limiter.repository.get_bucket("u", "gpt")
        assert bucket is not None
        assert {each.limit.name: (each.available, each.consumed) for each in bucket.limits} == {
            "rpm": (0, 8),
            "tpm": (92, 8),
        }
        assert bucket.shadowed == 3


def test_corrections_of_what_was_only_counted_are_only_counted() -> None:
    with SyncRateLimiter(SyncRepository.in_memory(), default_limits=[RPM]) as limiter:
        with limiter.acquire("u", "gpt", {"rpm": 5}):
            pass
        with limiter.acquire("u", "gpt", {"rpm": 3}) as lease:
            lease.adjust(rpm=100)
        bucket = limiter.repository.get_bucket("u", "gpt")
        assert bucket is not None
        assert (bucket.limits[0].available, bucket.limits[0].consumed) == (0, 108)


def test_a_limiter_in_shadow_refuses_nobody() -> None:
    with SyncRateLimiter(SyncRepository.in_memory(), default_limits=[TPM], shadow=True) as limiter:
        with limiter.acquire("u", "gpt", {"tpm": 500}) as lease:
            assert [status.limit_name for status in lease.shadowed] == ["tpm"]
        assert limiter.is_available("u", "gpt", {"tpm": 500})
