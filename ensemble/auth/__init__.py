"""Who somebody is, and how that is proved: schemes, certificates' names, SASL.  Pure."""
