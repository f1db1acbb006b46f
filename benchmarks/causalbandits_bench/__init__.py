"""How fast the library is, and how much regret its policies have; `benchmarks/run.py` is the command."""
