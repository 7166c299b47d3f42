"""Tests of the documents: their links, paths and commands, and the reference pages generated from the code."""
