from concurrent.futures import ThreadPoolExecutor

from zae_limiter.runtime.lru import LRU


def test_it_holds_no_more_than_its_size() -> None:
    cache: LRU[int, int] = LRU(3)
    for number in range(100):
        cache.put(number, number)
    assert len(cache) == 3
    assert [cache.get(number) for number in (96, 97, 98, 99)] == [None, 97, 98, 99]


def test_what_was_not_used_for_longest_goes_first() -> None:
    cache: LRU[str, int] = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)


def test_putting_again_counts_as_use_and_replaces() -> None:
    cache: LRU[str, int] = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.put("a", 10) == 10
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b")) == (10, None)


def test_setdefault_keeps_what_is_there() -> None:
    cache: LRU[str, int] = LRU(2)
    assert (cache.setdefault("a", 1), cache.setdefault("a", 2)) == (1, 1)


def test_discard_and_clear_forget() -> None:
    cache: LRU[str, int] = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.discard("a")
    cache.discard("never there")
    assert (cache.get("a"), cache.get("b"), len(cache)) == (None, 2, 1)
    cache.clear()
    assert len(cache) == 0


def test_threads_may_share_it() -> None:
    cache: LRU[int, int] = LRU(8)

    def use(seed: int) -> None:
        for step in range(3_000):
            key = (seed * 7 + step) % 13
            assert cache.put(key, key) == key
            assert cache.get(key + 1) in {None, key + 1}
            if step % 97 == 0:
                cache.discard(key)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(use, range(8)))
    assert len(cache) <= 8


def test_the_oldest_go_up_to_the_first_that_may_stay() -> None:
    cache: LRU[str, int] = LRU(5)
    for key, value in (("a", 1), ("b", 2), ("c", 9), ("d", 3)):
        cache.put(key, value)
    cache.pop_oldest(lambda value: value < 5)
    assert [cache.pop(key) for key in "abcd"] == [None, None, 9, 3]
    cache.pop_oldest(lambda value: value < 5)
    assert len(cache) == 0
