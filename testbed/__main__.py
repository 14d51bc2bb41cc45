"""`python -m testbed`: see `testbed.cli`."""

from testbed.cli import main

if __name__ == "__main__":
    main()
