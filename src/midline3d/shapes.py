"""Shapes as types: jaxtyping where it is installed (the tests check every call), plain names where it is not."""

from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Shape:
            def __class_getitem__(cls, item: Any) -> Any:
                return item[0]

        Bool = Float = Int = _Shape

__all__ = ["Bool", "Float", "Int", "Tensor"]
