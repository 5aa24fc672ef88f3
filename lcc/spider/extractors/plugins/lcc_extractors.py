"""The link extractors that come with the LCC."""

from __future__ import annotations

from lcc.spider.extractors.html import HtmlExtractor
from lcc.spider.extractors.pdf import PdfExtractor
from lcc.spider.extractors.uri_list import UriListExtractor
from lcc.spider.extractors.xml import GzipExtractor, XmlExtractor

gzip = GzipExtractor()
html = HtmlExtractor()
pdf = PdfExtractor()
uri_list = UriListExtractor()
xml = XmlExtractor()
