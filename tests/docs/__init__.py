"""Tests of the documents: their links, paths and commands, and the reference generated from the code."""
