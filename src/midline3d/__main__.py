"""`python -m midline3d` is the command."""

from midline3d.cli import main

main()
