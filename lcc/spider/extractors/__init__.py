"""Links of documents, by their type (doc/spider.md)."""
