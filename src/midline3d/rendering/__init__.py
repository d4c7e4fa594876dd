"""One operator, one contract, several renderers: blobs and images in; the render, sum(B I) and sum(B) out."""

from midline3d.rendering.contract import Blobs, Objective, Products, Renderer, Rendering, covered, reach
from midline3d.rendering.cpu import Compiled
from midline3d.rendering.operator import products, render, select_renderer
from midline3d.rendering.patches import Patches
from midline3d.rendering.reference import Reference

__all__ = [
    "Blobs",
    "Compiled",
    "Objective",
    "Patches",
    "Products",
    "Reference",
    "Renderer",
    "Rendering",
    "covered",
    "products",
    "reach",
    "render",
    "select_renderer",
]
