"""What lives here: the page on the quota has what the tool counts, and usage keeps what it promises at size.
What never does: how usage waits (zae-limiter-aggregator).
"""

from website.quota import KINDS, PAGE, Load, filled


def test_the_page_has_todays_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page


def test_usage_adds_at_most_a_tenth_of_the_admissions_at_size() -> None:
    load = Load(calls=10_000, buckets=10_000)
    assert (KINDS["one write: an acquire"].table, KINDS["usage of a bucket, any other write"].table) == (1, 1)
    assert load.usage <= load.admissions / 10 < load.usage_by_batch
