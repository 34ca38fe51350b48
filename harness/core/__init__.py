"""How one run trains. Reads `train.py` from top to bottom; never imports `harness.sweep`."""
