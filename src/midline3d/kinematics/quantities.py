"""Every quantity of the kinematics: dimensions, unit, meaning, formula, and its standard deviation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi

STD = "_std"
"""At the end of the name of a quantity's standard deviation."""


@dataclass(frozen=True)
class Quantity:
    """One variable of the kinematics."""

    dims: tuple[str, ...]
    units: str
    meaning: str
    formula: str = ""
    place: bool = False
    """Whether it needs to know where the animal is, and not only how it is bent."""
    smoothed: bool = False
    """Whether it is a derivative in time, or made of one."""
    counted: bool = False
    """Whether it is a word or a count, or the standard error of something: such have no standard deviation."""
    period: float = 0.0
    """After which an angle is the same again; 0 for what is no angle, or one that goes on."""
    either_sign: bool = False
    """Whether its sign as a whole is arbitrary."""

    @property
    def deviation(self) -> Quantity:
        """Its standard deviation, a variable of its own; v_k is the value of the k-th drawn midlines."""
        meaning, formula = f"standard deviation of: {self.meaning}", "sqrt(mean_k (v_k - v)^2)"
        return replace(self, meaning=meaning, formula=formula, counted=True, period=0.0, either_sign=False)


def _frame(units: str, meaning: str, formula: str, **more: bool | float) -> Quantity:
    return Quantity(("time",), units, meaning, formula, **more)  # type: ignore[arg-type]


def _moving(dims: tuple[str, ...], units: str, meaning: str, formula: str = "") -> Quantity:
    """Of what is made of the centroid's way."""
    return Quantity(dims, units, meaning, formula, place=True, smoothed=True)


SHAPE = {
    "length": _frame("mm", "length of the midline", "l"),
    "curvature": Quantity(("time", "keypoint"), "1/mm", "curvature, whatever its direction", "|K| / l"),
    "torsion": Quantity(
        ("time", "keypoint"),
        "1/mm",
        "torsion, above 0 right-handed; NaN where the body is nearly straight",
        "Im(conj(K) K') / (l |K|^2)",
    ),
    "handedness": _frame(
        "1/mm",
        "mean torsion, weighted by the squared curvature; above 0 right-handed",
        "int Im(conj(K) K') du / (l int |K|^2 du)",
    ),
    "planarity": _frame("1", "1 for a body that bends in one plane, 0 in none", "|int K^2 du| / int |K|^2 du"),
    "spread": Quantity(
        ("time", "principal"), "mm^2", "eigenvalues of the covariance of the midline's points", "e1 >= e2 >= e3"
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
        period=pi,
    ),
    "roll_rate": _frame(
        "rad/s",
        "rate at which the bending plane turns about the body; a midline has no twist of the flesh",
        "d/dt bending_angle",
        smoothed=True,
    ),
    "bending_normal": Quantity(
        ("time", "space"),
        "1",
        "unit normal of the bending plane, of an arbitrary side that is kept",
        "T x N",
        either_sign=True,
    ),
}
WAVE = {
    "frequency": _frame("Hz", "beats a second", "(1 / 2 pi) d/dt arg A", smoothed=True),
    "wavelength": _frame("mm", "length of the wave along the body", "2 pi l / |q|, q = d/du arg A"),
    "wave_speed": _frame(
        "mm/s",
        "speed of the wave along the body, above 0 from head to tail",
        "-2 pi frequency l / q",
        smoothed=True,
    ),
    "wave_amplitude": _frame("1/mm", "envelope of the curvature wave, root mean square over the body", "rms_u |A| / l"),
    "travelling_wave_index": _frame(
        "1", "1 for a wave that travels, 0 for one that stands", "s2 / s1 of the strongest complex mode of A"
    ),
}
MOTION = {
    "centroid": _moving(("time", "space"), "mm", "mean of the midline's points, smoothed", "int r du"),
    "velocity": _moving(("time", "space"), "mm/s", "velocity of the centroid", "d/dt int r du"),
    "speed": _moving(("time",), "mm/s", "speed of the centroid", "|velocity|"),
    "forward_speed": _moving(
        ("time",), "mm/s", "mean speed of the body's points along the body, above 0 head first", "-int dr/dt . T du"
    ),
    "sideways": _moving(
        ("time",),
        "1",
        "share of the motion that goes across the body: 0 along its own track, 1 broadside",
        "int |dr/dt - (dr/dt . T) T|^2 du / int |dr/dt|^2 du",
    ),
    "slip": _moving(
        ("time",),
        "1",
        "0 where the body follows its own track, 1 where the wave runs in place",
        "1 - forward_speed / wave_speed",
    ),
    "motion": _frame(
        "none", "forward, backward or pause, by the forward speed; empty where unknown", "", place=True, counted=True
    ),
}
PATH = {
    "path_length": _moving(("time",), "mm", "way of the centroid since the first frame", "sum |dc|"),
    "straightness": _moving((), "1", "distance from first to last place over the way", "|c_end - c_0| / sum |dc|"),
    "mean_squared_displacement": _moving(
        ("lag",), "mm^2", "mean squared displacement of the centroid", "mean |c(t + lag) - c(t)|^2"
    ),
    "mean_squared_displacement_error": replace(
        _moving(
            ("lag",),
            "mm^2",
            "its standard error over time: as many pairs are independent as lags fit into the recording",
            "std / sqrt(pairs / lag)",
        ),
        counted=True,
    ),
    "direction_correlation": _moving(
        ("lag",), "1", "mean cosine between directions of motion", "mean d(t) . d(t + lag)"
    ),
    "persistence_time": _moving(
        (), "s", "lag at which the direction's correlation falls under 1/e; NaN where it does not"
    ),
    "persistence_length": _moving((), "mm", "way in that time", "mean speed times persistence_time"),
    "sinuosity": _moving(
        (), "1/mm^0.5", "3D sinuosity of the path, 0 for a straight one", "2 / sqrt(p ((1 + c) / (1 - c) + b^2))"
    ),
}
BOUTS = {
    "run_start": Quantity(("run",), "s", "time of a run's first frame", place=True),
    "run_end": Quantity(("run",), "s", "time of a run's last frame", place=True),
    "run_kind": Quantity(("run",), "none", "forward, or backward: a reversal", place=True, counted=True),
    "run_distance": _moving(("run",), "mm", "way of the centroid"),
    "run_speed": _moving(("run",), "mm/s", "mean forward speed"),
    "turn_start": Quantity(("turn",), "s", "end of the run forward before the turn", place=True),
    "turn_end": Quantity(("turn",), "s", "start of the run forward after it", place=True),
    "turn_angle": _moving(("turn",), "rad", "angle between the directions of both runs"),
    "turn_roll": replace(_moving(("turn",), "rad", "turn of the bending plane about the body meanwhile"), period=pi),
    "turn_reversal": Quantity(("turn",), "1", "1 where the animal went backwards in between", place=True, counted=True),
}
EIGENWORMS = {
    "eigenworm": Quantity(
        ("mode", "keypoint", "part"),
        "1",
        "modes of the curvature, each with a mean square of 1",
        "eigenvectors of sum_t K(u) conj(K(v)); no mean is subtracted",
        either_sign=True,
    ),
    "eigenworm_share": Quantity(("mode",), "1", "share of the squared curvature that a mode explains"),
    "eigenworm_handedness": Quantity(("mode",), "1/body length", "twist of a mode by itself", "int Im(conj(e) e') du"),
    "eigenworm_amplitude": Quantity(
        ("time", "mode"), "1/body length", "size of a mode in the posture", "|int conj(e) K du|"
    ),
    "eigenworm_phase": Quantity(
        ("time", "mode"), "rad", "phase of a mode against the first's", "arg(a_mode conj(a_0))", period=pi
    ),
}
DIRECTION = {
    "azimuth": _frame(
        "rad",
        "direction from tail to head in the level plane, from the heading to its left",
        "atan2(y, x)",
        period=2 * pi,
    ),
    "elevation": _frame("rad", "direction from tail to head above the level plane", "asin(z)"),
}
"""Only where [frame] says what is up."""
COORDINATES = {
    "time": Quantity(("time",), "s", "time since the recording's first frame"),
    "frame": Quantity(("time",), "1", "number of the frame in the recording"),
    "status": Quantity(("time",), "none", "what became of the frame"),
    "space": Quantity(("space",), "none", "axis of the world"),
    "keypoint": Quantity(("keypoint",), "1", "place along the midline, 0 the head"),
    "principal": Quantity(("principal",), "1", "rank of the eigenvalue"),
    "lag": Quantity(("lag",), "s", "time between two frames"),
    "mode": Quantity(("mode",), "1", "rank of the eigenworm"),
    "part": Quantity(("part",), "none", "part of a complex number"),
}
MEASURED: dict[str, Quantity] = SHAPE | PLANE | WAVE | MOTION | PATH | BOUTS | EIGENWORMS | DIRECTION
"""What is measured, in the order in which it is written."""
DEVIATIONS: dict[str, Quantity] = {
    name + STD: quantity.deviation for name, quantity in MEASURED.items() if not quantity.counted
}
"""The standard deviation of each."""
QUANTITIES: dict[str, Quantity] = {
    each: quantity
    for name in MEASURED
    for each, quantity in ((name, MEASURED[name]), (name + STD, DEVIATIONS.get(name + STD)))
    if quantity is not None
}
"""All of them, each followed by its standard deviation."""
