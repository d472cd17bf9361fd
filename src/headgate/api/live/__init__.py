"""What happens, as it happens: the feed, streams of it, and answers that wait."""
