"""What admin, console and web monitor show alike: where a URL stands, whether all is well."""
