"""`python -m multikueue`."""

from multikueue.cli import main

if __name__ == "__main__":
    main()
