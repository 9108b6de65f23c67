from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from zae_limiter import UsageSnapshot
from zae_limiter_cli.usage.chart import bar, charts

HOUR = timedelta(hours=1)


def used(hour: int, entity: str = "e", **consumed: int) -> UsageSnapshot:
    return UsageSnapshot(entity, "r", "hourly", datetime(2024, 1, 1, hour, tzinfo=UTC), consumed, 1)


def drawn(*snapshots: UsageSnapshot, width: int = 38, symbols: bool = True) -> list[str]:
    return list(charts(snapshots, HOUR, width=width, symbols=symbols))


def test_a_limit_has_a_line_for_each_window_the_longest_as_wide_as_there_is_room() -> None:
    assert drawn(used(8, rpm=1000), used(9, rpm=250)) == [
        "rpm",
        "  2024-01-01 08:00  1,000  ███████████",
        "  2024-01-01 09:00    250  ██▊",
    ]


def test_without_symbols_bars_are_ascii() -> None:
    lines = drawn(used(8, rpm=1000), used(9, rpm=250), symbols=False)
    assert [line.split()[-1] for line in lines[1:]] == ["#" * 11, "##"]
    assert "".join(lines).isascii()


def test_windows_without_use_are_lines_without_a_bar() -> None:
    assert [line.split()[1:] for line in drawn(used(8, rpm=4), used(11, rpm=4))[1:]] == [
        ["08:00", "4", "█" * 15],
        ["09:00", "0"],
        ["10:00", "0"],
        ["11:00", "4", "█" * 15],
    ]


def test_entities_of_a_window_are_added_up_and_limits_stand_one_below_the_other_over_the_same_windows() -> None:
    lines = drawn(used(8, "a", tpm=1), used(9, "a", rpm=1, tpm=2), used(9, "b", rpm=2))
    assert [line.split()[:3] for line in lines] == [
        ["rpm"],
        ["2024-01-01", "08:00", "0"],
        ["2024-01-01", "09:00", "3"],
        ["tpm"],
        ["2024-01-01", "08:00", "1"],
        ["2024-01-01", "09:00", "2"],
    ]


def test_more_given_back_than_consumed_and_nothing_at_all_have_no_bar() -> None:
    assert [line.split()[2:] for line in drawn(used(8, rpm=-5), used(9, rpm=0))[1:]] == [["-5"], ["0"]]


def test_nothing_is_no_line() -> None:
    assert drawn() == []


@given(
    amounts=st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=24),
    width=st.integers(0, 200),
    symbols=st.booleans(),
)
def test_no_line_is_longer_than_there_is_room_and_every_use_is_seen(
    amounts: list[int], width: int, *, symbols: bool
) -> None:
    lines = drawn(*(used(hour, rpm=amount) for hour, amount in enumerate(amounts)), width=width, symbols=symbols)[1:]
    assert [line[-1] in "█▏▎▍▌▋▊▉#" for line in lines] == [amount > 0 for amount in amounts]
    assert max(map(len, lines)) <= max(width, 54)


@given(most=st.integers(1, 10**12), share=st.floats(0, 1), room=st.integers(10, 200))
def test_a_bar_is_at_most_an_eighth_shorter_than_its_share_and_only_then_longer_where_it_would_not_be_seen(
    most: int, share: float, room: int
) -> None:
    amount = int(most * share)
    length = len(bar(amount, most, room, symbols=True))
    exact = amount * room / most
    assert length <= max(1, exact + 1)
    assert length >= exact - 1 / 8 - 1e-6
