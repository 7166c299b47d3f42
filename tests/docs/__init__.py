"""The documents: their links and paths, their commands, and the reference made from the code."""
