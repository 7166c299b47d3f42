"""Quotas: how they are set, how rates are measured, and who is held back."""
