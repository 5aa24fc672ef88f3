"""Shared by the command line tools: errors, examples, progress, --watch."""
