"""The command line. One call each, no logic; `--help` imports nothing heavy.

python -m harness plan  grid_specs/clip_higher.yaml [key=value ...]
python -m harness sweep grid_specs/clip_higher.yaml scale=mini seeds=5
"""

import sys

from harness.sweep.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
