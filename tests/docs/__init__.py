"""Tests of the documents: their links and paths, their commands, and the reference generated from the code."""
