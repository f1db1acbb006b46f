"""`python -m causalbandits.cli`, if the program is not on the path."""

from causalbandits.cli import main

main()
