from website.root import page_of_root


def test_links_of_a_root_page_lead_to_pages_or_to_files_at_the_host() -> None:
    page = "[a](docs/core.md#x) [b](packages/one/README.md) [c](#here) [d](https://example.com)"
    expected = "[a](core.md#x) [b](https://host/blob/main/packages/one/README.md) [c](#here) [d](https://example.com)"
    assert page_of_root(page, "https://host") == expected
