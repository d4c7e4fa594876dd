"""What every backend does: the sums of a second-order step, each of which is an equation of the core.

A step integrates curves, projects them, tapers their blobs, sums energies and normal equations, solves these and takes
the step. Torch, C and Triton each do all of it; which of them does is chosen once for a problem (`select_backend`), by
its device and dtype. `reference.TorchBackend` says what is meant: the others are compared with it in float64, and
inherit from it what is not worth a kernel of their own. None but the reference has gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from midline3d.appearance import BlobAppearance, Optics, Profile, ViewAppearance
from midline3d.cameras import Cameras
from midline3d.curve import Curve
from midline3d.kernels.basis import Basis
from midline3d.kernels.layout import Layout
from midline3d.rendering import Products
from midline3d.shapes import Float, Int, Tensor
from midline3d.state import Bounds, FrameState


@dataclass(frozen=True)
class Prior:
    """What holds a frame beside its pixels: its bending, and its change since the frame before. Both are quadratic."""

    anchor: FrameState
    """The frame before, which the temporal terms hold the state to."""
    stiffness: Float[Tensor, "vertex both"]
    """Q of the curvature's energy sum(K' Q K), by the vertices and, behind them, by the nodes."""
    keeping: Float[Tensor, " kept"]
    """Weights of squared log length, shift, log sigma, log iota, defocus and log rho, in the order of `Layout`."""
    layout: Layout
    """Where the gradient of all this stands."""
    pixels: float
    """Weight of the pixels' losses, beside which all this counts."""


@dataclass(frozen=True)
class Energy:
    """The energy of a batch of frames, and what of its gradient the pixels have no part in."""

    total: Float[Tensor, " batch"]
    terms: Float[Tensor, "term batch"]
    """Pixels, curvature, temporal: `second_order.TERMS`."""
    prior_gradient: Float[Tensor, "batch unknown"]
    """Half the gradient of the curvature's and the temporal terms, as `System.gradient` is of all."""


@dataclass(frozen=True)
class System:
    """H and g of each frame's unknowns, and of parameters shared by all frames where there are any."""

    hessian: Float[Tensor, "batch unknown unknown"]
    gradient: Float[Tensor, "batch unknown"]


@dataclass(frozen=True)
class StepLimits:
    """What one step may change at most, and what no parameter may leave."""

    log_length: float
    log_appearance: float
    """Of the views' sigma, iota and rho."""
    bounds: Bounds


@runtime_checkable
class Backend(Protocol):
    """One implementation of the sums. Tensors are of the dtype and on the device that the backend was chosen for."""

    def integrate(
        self,
        position: Float[Tensor, "batch 3"],
        bishop: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        """The curve through a position with a Bishop frame at vertex `start`: `curve.integrate`."""
        ...

    def through(
        self,
        position: Float[Tensor, "batch 3"],
        bishop: Float[Tensor, "batch 3 3"],
        curvature: Float[Tensor, "batch vertex 2"],
        length: Float[Tensor, " batch"],
        start: Int[Tensor, " batch"],
    ) -> Curve:
        """The same with a Bishop frame that has to be made orthonormal first: `curve.through`."""
        ...

    def project(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], shift: Float[Tensor, "batch axis"] | None
    ) -> Float[Tensor, "batch camera vertex 2"]:
        """Image points, px: `cameras.project`."""
        ...

    def optics(
        self, cameras: Cameras, points: Float[Tensor, "batch vertex 3"], tangents: Float[Tensor, "batch vertex 3"]
    ) -> Optics:
        """Light's way through the body and depths: `appearance.optics`."""
        ...

    def appearance(self, profile: Profile, view: ViewAppearance, optics: Optics) -> BlobAppearance:
        """sigma-bar and iota-bar of every blob and their derivatives: `appearance.Profile.apply`."""
        ...

    def energy(self, prior: Prior, state: FrameState, losses: Float[Tensor, "batch camera"]) -> Energy:
        """The energy of states whose pixels lose so much: `reference.energy`."""
        ...

    def pixel_system(
        self,
        products: Products,
        state: FrameState,
        appearance: BlobAppearance,
        cameras: Cameras,
        basis: Basis,
        layout: Layout,
    ) -> System:
        """The pixels' normal equations for all unknowns of every frame: `normal.pixel_system`."""
        ...

    def solve(self, system: System, damping: Float[Tensor, " batch"]) -> Float[Tensor, "batch unknown"]:
        """The damped step; NaN where the damped matrix is not positive: `reference.solve`."""
        ...

    def take_step(
        self, state: FrameState, step: Float[Tensor, "batch unknown"], basis: Basis, layout: Layout, limits: StepLimits
    ) -> FrameState:
        """The state after a step of the unknowns: `reference.take_step`."""
        ...

    def clamped(self, state: FrameState, bounds: Bounds) -> FrameState:
        """All parameters within their bounds, the curve made anew about its middle: `FrameState.clamped`."""
        ...
