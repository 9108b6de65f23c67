"""What lives here: the table of when a change is obeyed is what the processes of today do."""

from website.obeyed import PAGE, filled


def test_the_table_of_when_a_change_is_obeyed_is_what_processes_do() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run `just pictures`"
