"""The web pages and the HTTP API of the registration server."""
