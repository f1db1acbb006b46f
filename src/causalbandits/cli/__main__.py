"""`python -m causalbandits.cli`, where the program is not on the path."""

from causalbandits.cli import main

main()
