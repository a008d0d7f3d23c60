"""The benchmarks, by name: each takes a :class:`benchmarks.bench.Bench` and gives a section."""
