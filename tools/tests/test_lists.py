import re

from lists import BLOCK, PAGE, overview, written
from zae_limiter_cli.main import main


def test_the_list_of_the_page_is_what_the_code_says() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert written(text) == text, "run `just lists`"


def test_the_overview_has_each_command_at_the_top() -> None:
    assert set(re.findall(r"^\| \[`(\S+)`\]\(\S+\) \| .+\. \|$", overview(), re.MULTILINE)) == set(main.entries)
