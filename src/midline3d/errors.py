"""The one exception that a user is meant to read."""


class InputError(ValueError):
    """Something the user gave is wrong: one sentence that names the thing, the value and the remedy.

    The command prints it alone and exits with status 2; nothing else may end a run that way.
    """
