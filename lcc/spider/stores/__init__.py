"""What the spider keeps of the pages that it has read (doc/spider.md)."""
