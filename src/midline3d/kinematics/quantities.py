"""Every quantity of the kinematics: dimensions, unit, meaning, formula, and where its uncertainty comes from."""

from __future__ import annotations

from dataclasses import dataclass

SCATTER = "scatter of single frames around their course in time; slower errors are not seen in it"
FITTED = "scatter of single frames, through the smoothing's weights"
WALKED = "scatter of single frames and its slow part, through the smoothing's weights"


@dataclass(frozen=True)
class Quantity:
    """One variable of the kinematics."""

    dims: tuple[str, ...]
    units: str
    meaning: str
    formula: str
    uncertainty: str = ""
    """Where its standard deviation comes from; empty where none can be stated."""
    place: bool = False
    """Whether it needs to know where the animal is, and not only how it is bent."""
    smoothed: bool = False
    """Whether it is a derivative in time, or made of one."""


def _frame(units: str, meaning: str, formula: str, uncertainty: str = SCATTER, **more: bool) -> Quantity:
    return Quantity(("time",), units, meaning, formula, uncertainty, **more)


SHAPE = {
    "length": _frame("mm", "length of the midline", "l"),
    "curvature": Quantity(("time", "keypoint"), "1/mm", "curvature, whatever its direction", "|K| / l", SCATTER),
    "torsion": Quantity(
        ("time", "keypoint"),
        "1/mm",
        "torsion, above 0 right-handed; NaN where the body is nearly straight",
        "Im(conj(K) K') / (l |K|^2)",
        SCATTER,
    ),
    "handedness": _frame(
        "1/mm",
        "mean torsion, weighted by the squared curvature; above 0 right-handed",
        "int Im(conj(K) K') du / (l int |K|^2 du)",
    ),
    "planarity": _frame("1", "1 for a body that bends in one plane, 0 in none", "|int K^2 du| / int |K|^2 du"),
    "spread": Quantity(
        ("time", "principal"),
        "mm^2",
        "eigenvalues of the covariance of the midline's points",
        "e1 >= e2 >= e3",
        SCATTER,
    ),
    "nonplanarity": _frame(
        "1", "share of the points' variance that is outside their best plane", "e3 / (e1 + e2 + e3)"
    ),
    "writhe": _frame(
        "1",
        "how often the body crosses itself, seen from all sides, by the crossings' handedness",
        "(1 / 4 pi) double int (dr x ds) . (r - s) / |r - s|^3",
    ),
    "body_sinuosity": _frame("1", "length over the distance from head to tail", "l / |r(1) - r(0)|"),
}
PLANE = {
    "bending_angle": _frame(
        "rad",
        "angle of the bending plane about the tangent at the body's middle, against a frame carried along in time",
        "arg(int K^2 du) / 2, followed continuously",
        smoothed=True,
    ),
    "roll_rate": _frame(
        "rad/s",
        "rate at which the bending plane turns about the body; a midline has no twist of the flesh",
        "d/dt bending_angle",
        FITTED,
        smoothed=True,
    ),
    "bending_normal": Quantity(
        ("time", "space"), "1", "unit normal of the bending plane, of an arbitrary side that is kept", "T x N"
    ),
}
WAVE = {
    "frequency": _frame("Hz", "beats a second", "(1 / 2 pi) d/dt arg A", FITTED, smoothed=True),
    "wavelength": _frame("mm", "length of the wave along the body", "2 pi l / |q|, q = d/du arg A"),
    "wave_speed": _frame(
        "mm/s",
        "speed of the wave along the body, above 0 from head to tail",
        "-2 pi frequency l / q",
        smoothed=True,
    ),
    "wave_amplitude": _frame("1/mm", "envelope of the curvature wave, root mean square over the body", "rms_u |A| / l"),
    "travelling_wave_index": _frame(
        "1", "1 for a wave that travels, 0 for one that stands", "s2 / s1 of the strongest complex mode of A", ""
    ),
}
MOTION = {
    "centroid": Quantity(
        ("time", "space"), "mm", "mean of the midline's points, smoothed", "int r du", SCATTER, True, True
    ),
    "velocity": Quantity(("time", "space"), "mm/s", "velocity of the centroid", "d/dt int r du", WALKED, True, True),
    "speed": _frame("mm/s", "speed of the centroid", "|velocity|", WALKED, place=True, smoothed=True),
    "speed_std": _frame(
        "mm/s",
        "standard deviation of the velocity's components",
        "scatter times the smoothing's gain, and times its drift",
        "",
        place=True,
        smoothed=True,
    ),
    "forward_speed": _frame(
        "mm/s",
        "mean speed of the body's points along the body, above 0 head first",
        "-int dr/dt . T du",
        FITTED,
        place=True,
        smoothed=True,
    ),
    "forward_speed_std": _frame(
        "mm/s",
        "standard deviation of the forward speed",
        "scatter times the smoothing's gain",
        "",
        place=True,
        smoothed=True,
    ),
    "sideways": _frame(
        "1",
        "share of the motion that goes across the body: 0 along its own track, 1 broadside",
        "int |dr/dt - (dr/dt . T) T|^2 du / int |dr/dt|^2 du",
        "",
        place=True,
        smoothed=True,
    ),
    "slip": _frame(
        "1",
        "0 where the body follows its own track, 1 where the wave runs in place",
        "1 - forward_speed / wave_speed",
        place=True,
        smoothed=True,
    ),
    "motion": _frame(
        "none", "forward, backward or pause, by the forward speed; empty where unknown", "", "", place=True
    ),
}
PATH = {
    "path_length": _frame("mm", "way of the centroid since the first frame", "sum |dc|", "", place=True, smoothed=True),
    "straightness": Quantity(
        (), "1", "distance from first to last place over the way", "|c_end - c_0| / sum |dc|", "", True, True
    ),
    "mean_squared_displacement": Quantity(
        ("lag",),
        "mm^2",
        "mean squared displacement of the centroid",
        "mean |c(t + lag) - c(t)|^2",
        "standard error: as many pairs are independent as lags fit into the recording",
        True,
        True,
    ),
    "mean_squared_displacement_std": Quantity(
        ("lag",), "mm^2", "its standard error", "std / sqrt(pairs / lag)", "", True, True
    ),
    "direction_correlation": Quantity(
        ("lag",), "1", "mean cosine between directions of motion", "mean d(t) . d(t + lag)", "", True, True
    ),
    "persistence_time": Quantity(
        (), "s", "lag at which the direction's correlation falls under 1/e; NaN where it does not", "", "", True, True
    ),
    "persistence_length": Quantity((), "mm", "way in that time", "mean speed times persistence_time", "", True, True),
    "sinuosity": Quantity(
        (),
        "1/mm^0.5",
        "3D sinuosity of the path, 0 for a straight one",
        "2 / sqrt(p ((1 + c) / (1 - c) + b^2))",
        "",
        True,
        True,
    ),
}
BOUTS = {
    "run_start": Quantity(("run",), "s", "time of a run's first frame", "", "", True),
    "run_end": Quantity(("run",), "s", "time of a run's last frame", "", "", True),
    "run_kind": Quantity(("run",), "none", "forward, or backward: a reversal", "", "", True),
    "run_distance": Quantity(("run",), "mm", "way of the centroid", "", "", True, True),
    "run_speed": Quantity(("run",), "mm/s", "mean forward speed", "", "", True, True),
    "turn_start": Quantity(("turn",), "s", "end of the run forward before the turn", "", "", True),
    "turn_end": Quantity(("turn",), "s", "start of the run forward after it", "", "", True),
    "turn_angle": Quantity(("turn",), "rad", "angle between the directions of both runs", "", "", True, True),
    "turn_roll": Quantity(("turn",), "rad", "turn of the bending plane about the body meanwhile", "", "", True, True),
    "turn_reversal": Quantity(("turn",), "1", "1 where the animal went backwards in between", "", "", True),
}
EIGENWORMS = {
    "eigenworm": Quantity(
        ("mode", "keypoint", "part"),
        "1",
        "modes of the curvature, each with a mean square of 1",
        "eigenvectors of sum_t K(u) conj(K(v)); no mean is subtracted",
    ),
    "eigenworm_share": Quantity(("mode",), "1", "share of the squared curvature that a mode explains", ""),
    "eigenworm_handedness": Quantity(("mode",), "1/body length", "twist of a mode by itself", "int Im(conj(e) e') du"),
    "eigenworm_amplitude": Quantity(
        ("time", "mode"), "1/body length", "size of a mode in the posture", "|int conj(e) K du|", SCATTER
    ),
    "eigenworm_phase": Quantity(
        ("time", "mode"), "rad", "phase of a mode against the first's", "arg(a_mode conj(a_0))"
    ),
}
DIRECTION = {
    "azimuth": _frame(
        "rad", "direction from tail to head in the level plane, from the heading to its left", "atan2(y, x)"
    ),
    "elevation": _frame("rad", "direction from tail to head above the level plane", "asin(z)"),
}
"""Only where [frame] says what is up."""
COORDINATES = {
    "time": Quantity(("time",), "s", "time since the recording's first frame", ""),
    "frame": Quantity(("time",), "1", "number of the frame in the recording", ""),
    "status": Quantity(("time",), "none", "what became of the frame", ""),
    "space": Quantity(("space",), "none", "axis of the world", ""),
    "keypoint": Quantity(("keypoint",), "1", "place along the midline, 0 the head", ""),
    "principal": Quantity(("principal",), "1", "rank of the eigenvalue", ""),
    "lag": Quantity(("lag",), "s", "time between two frames", ""),
    "mode": Quantity(("mode",), "1", "rank of the eigenworm", ""),
    "part": Quantity(("part",), "none", "part of a complex number", ""),
}
QUANTITIES: dict[str, Quantity] = SHAPE | PLANE | WAVE | MOTION | PATH | BOUTS | EIGENWORMS | DIRECTION
"""All of them, in the order in which they are written."""
