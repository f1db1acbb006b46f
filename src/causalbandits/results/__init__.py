"""What simulations leave: measures, summaries, comparisons, pictures, reports."""
