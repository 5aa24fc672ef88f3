"""Pages with links, the same for whoever extracts them.  Only the standard library is used: peers import it, too."""

from __future__ import annotations

from collections.abc import Iterator

WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "eiusmod", "tempor")


def linked_pages(count: int, page_bytes: int, links: int) -> Iterator[tuple[str, bytes]]:
    """URL and content of pages: paragraphs with a link each, to other pages of the site."""
    for number in range(count):
        parts = [
            f"<!DOCTYPE html><html><head><title>Page {number}</title><link rel=stylesheet href=/s.css></head><body>"
        ]
        each = (page_bytes - 120) // links
        for n in range(links):
            target = f"/d{n}/page-{(number * 7 + n) % 50_000}.html"
            start = f'<div class="section"><h2>Part {n}</h2><p>'
            end = f' <b>bold</b></p><p>see <a href="{target}">the page {n}</a>, too.</p></div>'
            words = (WORDS[(number + n + at) % len(WORDS)] for at in range(each // 6))
            text = " ".join(words)[: max(0, each - len(start) - len(end))]
            parts.append(f"{start}{text}{end}")
        parts.append("</body></html>")
        yield f"http://site.example/d{number % 20}/page-{number}.html", "".join(parts).encode()
