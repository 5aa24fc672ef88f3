"""What enters a spider's frontier (doc/spider.md)."""
