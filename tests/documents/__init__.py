"""The documentation, played: each of its commands is run as it stands, and what it is said to show is compared.

``python -m tests.documents doc/tutorial.md`` plays one page and tells of each command.
"""
