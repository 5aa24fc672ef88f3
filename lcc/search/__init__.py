"""What search needs besides its role: queries, the text of pages, the index."""
