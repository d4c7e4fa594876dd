"""The command: what each one takes, does and says. Heavy modules are imported where they are used."""

from midline3d.cli.command import app, main

__all__ = ["app", "main"]
