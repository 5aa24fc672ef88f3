"""What sites push."""
