"""The feed worker: its stages, its plugins, parsing, and the text of pages (doc/feeds.md)."""
