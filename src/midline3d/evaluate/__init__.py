"""How good a result is: against known truth, and against hand clicks."""

from midline3d.evaluate.agreement import Agreement, agreement
from midline3d.evaluate.annotations import AnnotationEvaluation, evaluate_annotations
from midline3d.evaluate.clicks import Click, read_clicks, write_clicks
from midline3d.evaluate.geometry import distance_to_polyline, rigid_distance
from midline3d.evaluate.truth import Evaluation, evaluate_truth

__all__ = [
    "Agreement",
    "AnnotationEvaluation",
    "Click",
    "Evaluation",
    "agreement",
    "distance_to_polyline",
    "evaluate_annotations",
    "evaluate_truth",
    "read_clicks",
    "rigid_distance",
    "write_clicks",
]
