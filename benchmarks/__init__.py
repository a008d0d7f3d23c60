"""Benchmarks of graphalgo: synthetic high-degree graphs, measurements, and the peers beside them.

Run with ``python -m benchmarks --help`` from the checkout.
"""
