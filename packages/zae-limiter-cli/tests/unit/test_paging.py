"""Rows from as many pages as they need, of a store that may be late."""

import pytest

from zae_limiter import RateLimiterUnavailable
from zae_limiter_cli import paging
from zae_limiter_cli.paging import PAUSES, every_row, some_rows


class Pages:
    """Five pages of two rows, of which some are late so many times."""

    def __init__(self, **late: int) -> None:
        self.late, self.asked = late, 0

    def __call__(self, _size: int, behind: str | None) -> tuple[list[int], str | None]:
        page = int(behind or 0)
        self.asked += 1
        if self.late.get(f"page{page}", 0):
            self.late[f"page{page}"] -= 1
            raise RateLimiterUnavailable("the answer did not come in time")
        return [2 * page, 2 * page + 1], str(page + 1) if page < 4 else None


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(paging, "sleep", found.append)
    return found


def test_a_late_page_throws_away_none_before_it(slept: list[float]) -> None:
    pages = Pages(page2=2, page4=1)
    assert list(every_row(pages)) == list(range(10))
    assert (pages.asked, slept) == (8, [*PAUSES[:2], PAUSES[0]])
    assert some_rows(Pages(page3=1), 100, None) == (list(range(10)), None)


def test_a_store_that_does_not_answer_at_all_is_not_waited_for(slept: list[float]) -> None:
    for read in (lambda pages: list(every_row(pages)), lambda pages: some_rows(pages, 100, None)):
        with pytest.raises(RateLimiterUnavailable):
            read(Pages(page0=1))
    assert slept == []


def test_tries_end(slept: list[float]) -> None:
    with pytest.raises(RateLimiterUnavailable):
        list(every_row(Pages(page1=9)))
    assert slept == [*PAUSES]
