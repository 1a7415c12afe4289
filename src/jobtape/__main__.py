"""``python -m jobtape`` is the command ``jobtape``."""

from jobtape.cli import main

if __name__ == "__main__":
    main()
