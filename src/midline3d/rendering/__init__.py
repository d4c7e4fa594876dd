"""One operator, one contract, several bodies: blobs and images in; the render, sum(B I) and sum(B) out."""

from midline3d.rendering.contract import Blobs, Body, Objective, Products, Rendering, reach
from midline3d.rendering.cpu import Compiled
from midline3d.rendering.operator import products, render, select_body
from midline3d.rendering.reference import Reference
from midline3d.rendering.windows import Windows

__all__ = [
    "Blobs",
    "Body",
    "Compiled",
    "Objective",
    "Products",
    "Reference",
    "Rendering",
    "Windows",
    "products",
    "reach",
    "render",
    "select_body",
]
