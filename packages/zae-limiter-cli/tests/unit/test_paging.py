import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter_cli.paging import ROWS_OF_A_PAGE, every_row, first_rows


class Pages:
    """Numbers from 0 on, in pages at most so long; the last one may be empty."""

    def __init__(self, total: int, *, longest: int = ROWS_OF_A_PAGE) -> None:
        self.total = total
        self.longest = longest
        self.sizes: list[int] = []

    def __call__(self, size: int, following: str | None) -> tuple[list[int], str | None]:
        self.sizes.append(size)
        first = int(following or 0)
        end = first + min(size, self.longest)
        return list(range(first, min(end, self.total))), str(end) if end <= self.total else None


@given(total=st.integers(0, 40), longest=st.integers(1, 10), most=st.integers(1, 50))
def test_the_first_rows_come_from_as_many_pages_as_it_takes_and_more_is_told(
    total: int, longest: int, most: int
) -> None:
    rows = list(range(total))
    assert first_rows(Pages(total, longest=longest), most) == (rows[:most], total > most)
    assert list(every_row(Pages(total, longest=longest))) == rows


@pytest.mark.parametrize(("most", "sizes"), [(5, [6]), (999, [1000]), (1500, [1000, 1000])])
def test_no_page_is_asked_for_that_is_not_needed_or_longer_than_core_gives(most: int, sizes: list[int]) -> None:
    pages = Pages(10_000)
    first_rows(pages, most)
    assert pages.sizes == sizes
