"""`python -m comet_keras`: the same as the console command `comet-keras`."""

import sys

from comet_keras.cli import main

if __name__ == "__main__":
    sys.exit(main())
