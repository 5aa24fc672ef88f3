"""Results as an Atom feed (RFC 4287), and the search as OpenSearch describes one."""

from __future__ import annotations

from urllib.parse import urlencode

from lcc.domain.times import iso_utc
from lcc.protocols.xmltext import escape
from lcc.roles.search.pages.base import SearchFrontPage, followed
from lcc.search.values import Hit, Query, Results
from lcc.transport.http.replies import reply
from lcc.transport.http.security import set_page_headers
from lcc.transport.http.server import BodyRequest

ATOM = "application/atom+xml"
DESCRIPTION = "application/opensearchdescription+xml"
OPENSEARCH_NAMESPACE = "http://a9.com/-/spec/opensearch/1.1/"
SHORT_NAME_CHARS = 16
"""As OpenSearch has it."""


def feed(query: Query, results: Results, base: str, name: str) -> bytes:
    """The feed of a query.

    :param base: address of the site.
    :param name: of the search.
    """
    asked = urlencode({"q": query.text, "order": query.order.value})
    page, own = f"{base}/search?{asked}", f"{base}/search?{asked}&format=atom"
    links = [("self", ATOM, own), ("alternate", "text/html", page), ("search", DESCRIPTION, f"{base}/opensearch.xml")]
    if results.next:
        links.append(("next", ATOM, f"{own}&{urlencode({'after': results.next})}"))
    # A feed without entries was never updated.
    updated = max((hit.date for hit in results.hits), default=0)
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<feed xmlns="http://www.w3.org/2005/Atom" xmlns:opensearch="{OPENSEARCH_NAMESPACE}">\n'
        f"<id>{escape(page)}</id>\n<title>{escape(f'{query.text} · {name}')}</title>\n"
        f"<author><name>{escape(name)}</name></author>\n<updated>{iso_utc(updated)}</updated>\n"
        f"<opensearch:totalResults>{results.total}</opensearch:totalResults>\n"
        f'<opensearch:Query role="request" searchTerms="{escape(query.text)}"/>\n',
        *(f'<link rel="{rel}" type="{kind}" href="{escape(href)}"/>\n' for rel, kind, href in links),
        *(_entry(hit, base, page) for hit in results.hits),
        "</feed>\n",
    ]
    return "".join(parts).encode("utf-8", "replace")


def _entry(hit: Hit, base: str, results: str) -> str:
    copy = f"{base}/cached/{hit.key}" if hit.has_copy else ""
    page = followed(hit.url) if hit.browsable else ""
    related = f'<link rel="related" href="{escape(copy)}"/>' if copy else ""
    return (
        f"<entry><id>urn:x-lcc:{hit.key}</id><title>{escape(hit.title or hit.url)}</title>"
        f"<updated>{iso_utc(hit.date)}</updated>"
        f'<link rel="alternate" href="{escape(page or copy or results)}"/>{related}'
        f'<summary type="text">{escape(hit.snippet.text)}</summary></entry>\n'
    )


class OpenSearchPage(SearchFrontPage):
    """``/opensearch.xml``: how browsers and programs search here."""

    async def get(self, request: BodyRequest) -> None:
        # For everybody: it tells nothing of pages.
        base, name = self.front.base(request), self.front.name
        urls = "".join(
            f'<Url type="{kind}" template="{escape(base)}/search?q={{searchTerms}}{more}"/>\n'
            for kind, more in (
                ("text/html", ""),
                (ATOM, "&amp;format=atom"),
                ("application/json", "&amp;format=json&amp;limit={count?}"),
            )
        )
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<OpenSearchDescription xmlns="{OPENSEARCH_NAMESPACE}">\n'
            f"<ShortName>{escape(name[:SHORT_NAME_CHARS])}</ShortName>\n"
            f"<LongName>{escape(name[:48])}</LongName>\n"
            f"<Description>{escape(name)}: pages that the sites told of</Description>\n"
            f"{urls}"
            f'<Url type="{DESCRIPTION}" rel="self" template="{escape(base)}/opensearch.xml"/>\n'
            f'<Image type="image/svg+xml">{escape(base)}/icon.svg</Image>\n'
            "<InputEncoding>UTF-8</InputEncoding>\n<OutputEncoding>UTF-8</OutputEncoding>\n"
            "</OpenSearchDescription>\n"
        )
        set_page_headers(request, self.front.secure)
        reply(request, 200, DESCRIPTION, body.encode(), {})
