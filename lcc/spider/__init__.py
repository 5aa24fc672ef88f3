"""What the spider needs besides its engine: names, filters, extractors and stores (doc/spider.md)."""
