"""The command as a whole: its name, its commands in the order that help shows, and how it ends."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer

from midline3d.cli import cameras, cluster, demo, measures, products, recordings, results, rivals, view
from midline3d.cli.terminal import complain, warn
from midline3d.errors import InputError

app = typer.Typer(
    name="midline3d",
    help="3D midlines of slender, semi-transparent animals from two or more calibrated cameras.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo.demo,
    "simulate": recordings.simulate,
    "reconstruct": results.reconstruct,
    "info": results.info,
    "view": view.view,
    "check": recordings.check,
    "calibrate": cameras.calibrate,
    "refine-cameras": cameras.refine_cameras,
    "evaluate": results.evaluate,
    "annotate": view.annotate,
    "baseline": rivals.baseline,
    "compare": rivals.compare,
    "rivals": rivals.rivals,
    "ablate": rivals.ablate,
    "report": products.report,
    "picture": products.picture,
    "video": products.video,
    "kinematics": products.kinematics,
    "export": products.export,
    "bench": measures.bench,
    "benchmark": measures.benchmark,
    "limits": measures.limits,
    "doctor": measures.doctor,
}
"""By the name that users type, in the order in which help lists them."""
for _name, _function in COMMANDS.items():
    app.command(_name)(_function)
app.add_typer(cluster.app, name="cluster")


def main() -> None:
    """The entry point: whatever goes wrong is one sentence on standard error, and a status that says whose fault."""
    warnings.showwarning = warn
    # Before torch is loaded, and for all processes that are begun: threads that wait for each other sleep. By default
    # they spin, and beside other work on the machine a reconstruction then takes twice as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except InputError as fault:
        complain(str(fault))
        sys.exit(2)
    except Exception as fault:
        if _is_usage(fault):
            # With no words at all the help has been shown, and there is nothing to say.
            if usage := _usage(fault):
                complain(usage)
            sys.exit(2)
        if os.environ.get("MIDLINE3D_DEBUG"):
            raise
        text = " ".join(str(fault).split())
        complain(f"{type(fault).__name__}: {text} (a fault of midline3d's own: MIDLINE3D_DEBUG=1 shows where)")
        sys.exit(1)


def _is_usage(fault: Exception) -> bool:
    """Whether the command line itself was wrong: typer's own exceptions, which it names nowhere."""
    return any(kind.__name__ == "UsageError" for kind in type(fault).__mro__)


def _usage(fault: Any) -> str:
    """What was wrong with the command line, as one sentence with the remedy."""
    text = " ".join(fault.format_message().replace("Value error, ", "").split()).rstrip(".")
    if not text:
        return ""
    command = fault.ctx.command_path if fault.ctx is not None else "midline3d"
    return f"{text[:1].lower() + text[1:]}; {command} --help says what can be given"


@app.callback(invoke_without_command=True)
def _about(version: Annotated[bool, typer.Option("--version", help="Say the version and end.")] = False) -> None:
    if version:
        import midline3d

        typer.echo(midline3d.__version__)
        raise typer.Exit
