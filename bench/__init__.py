"""Side-by-side measurements against peers; each file is one command and prints ratios of one run."""
