"""The pages of the web monitor."""
