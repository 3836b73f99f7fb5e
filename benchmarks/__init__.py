"""Benchmarks: this project beside its peers, interleaved in one run.

`python -m benchmarks` runs every benchmark, prints its tables and writes a chart; a single one
runs as `python -m benchmarks.framing`, `.stdio` or `.client`. Only the output holds figures: a
ratio between two peers in one run means something, a figure from elsewhere does not.
"""
