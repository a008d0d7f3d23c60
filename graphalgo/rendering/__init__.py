"""Answers to look at: tables for a terminal, pictures as SVG and DOT."""
