"""What libraries do when things go wrong: `python -m benchmarks.faults`."""
