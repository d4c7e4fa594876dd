"""The kinematics in files: netCDF with everything, and tables that any program opens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from midline3d.files import aside
from midline3d.kinematics.quantities import STD

if TYPE_CHECKING:
    import pandas as pd

NAME = "kinematics"


def write(kinematics: xr.Dataset, folder: Path) -> dict[str, Path]:
    """Writes kinematics.nc and its tables; returns what lies where, by what it is.

    kinematics.csv has a row for every frame, kinematics-summary.csv one for every quantity, and where there are any,
    kinematics-runs.csv and kinematics-turns.csv one for each run and turn. What
    an earlier call left of these goes.
    """
    folder = Path(folder)
    places = {"all of it": folder / f"{NAME}.nc"}
    with aside(places["all of it"]) as part:
        kinematics.to_netcdf(part, engine="h5netcdf")
    tables = {"every frame": ("", frames(kinematics)), "every quantity": ("-summary", summary(kinematics))}
    for kind in ("run", "turn"):
        if any(kind in variable.dims for variable in kinematics.data_vars.values()):
            tables[f"every {kind}"] = (f"-{kind}s", _events(kinematics, kind))
    for what, (suffix, table) in tables.items():
        places[what] = folder / f"{NAME}{suffix}.csv"
        with aside(places[what]) as part:
            table.to_csv(part, index=False, na_rep="NaN", float_format="%.9g")
    for suffix in ("-runs", "-turns"):
        old = folder / f"{NAME}{suffix}.csv"
        if old not in places.values():
            old.unlink(missing_ok=True)  # of an earlier run, which found some
    return places


def frames(kinematics: xr.Dataset) -> pd.DataFrame:
    """A row for every frame: its number, time and status, and whatever has one value, or one for each axis, in it.

    The standard deviation of a column stands in the column of its name and `_std`, of velocity_x in velocity_x_std.
    """
    import pandas as pd

    columns = {name: kinematics[name].values for name in ("frame", "time", "status") if name in kinematics.coords}
    for name, variable in kinematics.data_vars.items():
        if variable.dims == ("time",):
            columns[str(name)] = variable.values
        elif variable.dims in (("time", "space"), ("time", "principal"), ("time", "mode")):
            labels = kinematics[variable.dims[1]].values.tolist()
            base, suffix = (str(name).removesuffix(STD), STD) if str(name).endswith(STD) else (str(name), "")
            columns |= {f"{base}_{label}{suffix}": variable.values[:, place] for place, label in enumerate(labels)}
    return pd.DataFrame(columns)


def summary(kinematics: xr.Dataset) -> pd.DataFrame:
    """A row for every quantity: unit, mean, deviation over time, uncertainty of a value, number of values, meaning.

    The uncertainty is the median of the quantity's standard deviations.
    """
    import pandas as pd

    rows = []
    for name, variable in kinematics.data_vars.items():
        if str(name).endswith(STD):
            continue
        # Means over axes of space, or over modes, would mean nothing.
        if variable.dtype.kind not in "fiu" or variable.dims not in ((), ("time",), ("time", "keypoint")):
            continue
        values = variable.values[np.isfinite(variable.values)]
        rows.append(
            {
                "quantity": name,
                "units": variable.attrs["units"],
                "mean": values.mean() if values.size else np.nan,
                "deviation_over_time": values.std() if values.size and variable.dims else np.nan,
                "uncertainty": variable.attrs.get("uncertainty", np.nan),
                "values": values.size,
                "meaning": variable.attrs["long_name"],
                "formula": variable.attrs.get("formula", ""),
            }
        )
    return pd.DataFrame(rows)


def _events(kinematics: xr.Dataset, kind: str) -> pd.DataFrame:
    import pandas as pd

    chosen = {str(name): var.values for name, var in kinematics.data_vars.items() if var.dims == (kind,)}
    return pd.DataFrame({name.removeprefix(f"{kind}_"): values for name, values in chosen.items()})
