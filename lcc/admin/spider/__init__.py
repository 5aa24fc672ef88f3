"""Crawls of spiders."""
