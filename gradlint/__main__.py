"""`python -m gradlint`."""

from gradlint.cli import main

if __name__ == "__main__":
    main()
