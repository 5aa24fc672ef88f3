"""Pages with links, the same for whoever extracts them.  Only the standard library is used: peers import it, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "eiusmod", "tempor")


def linked_pages(count: int, page_bytes: int, links: int) -> Iterator[tuple[str, bytes]]:
    """URL and content of pages: paragraphs with a link each, to other pages of the site."""
    for number in range(count):
        targets = [f"/d{n}/page-{(number * 7 + n) % 50_000}.html" for n in range(links)]
        yield f"http://site.example/d{number % 20}/page-{number}.html", linked_page(number, page_bytes, targets)


def linked_page(number: int, page_bytes: int, targets: Sequence[str]) -> bytes:
    """The content of a page with these links."""
    parts = [f"<!DOCTYPE html><html><head><title>Page {number}</title><link rel=stylesheet href=/s.css></head><body>"]
    each = (page_bytes - 120) // len(targets)
    for n, target in enumerate(targets):
        start = f'<div class="section"><h2>Part {n}</h2><p>'
        end = f' <b>bold</b></p><p>see <a href="{target}">the page {n}</a>, too.</p></div>'
        words = (WORDS[(number + n + at) % len(WORDS)] for at in range(each // 6))
        text = " ".join(words)[: max(0, each - len(start) - len(end))]
        parts.append(f"{start}{text}{end}")
    parts.append("</body></html>")
    return "".join(parts).encode()


def linked_site(site: int, roots: Sequence[str], pages: int, links: int) -> Iterator[tuple[str, list[str]]]:
    """Path and links of each page of a site, the page of the path ``""`` first, from which all others are reached.

    Three links in four lead to other pages of the site, in a tree whose leaves lead back; the others to pages of the
    other sites.

    :param roots: of all sites.
    :param links: of each page.
    """
    own = links - links // 4
    for page in range(pages):
        near = [(page * own + n + 1) % pages for n in range(own)]
        far = [((site + 1 + (page + n) % max(1, len(roots) - 1)) % len(roots), n) for n in range(links - own)]
        targets = [roots[site] + page_path(each) for each in near]
        yield page_path(page), targets + [roots[at] + page_path((page * 13 + n) % pages) for at, n in far]


def page_path(page: int) -> str:
    """Of a page of a site, without the slash in front."""
    return f"d{page % 20}/page-{page}.html" if page else ""
