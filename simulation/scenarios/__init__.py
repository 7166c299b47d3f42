"""The outage library: what went wrong elsewhere, as scripts that must go right here."""
