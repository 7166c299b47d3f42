"""Replicas: leaders and followers, their ISR, the high watermark, fetching and truncation."""
