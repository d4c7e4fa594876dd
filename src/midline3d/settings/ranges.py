"""What a number of the settings may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True)
class Range:
    """What a number of the settings may be, both ends included."""

    low: float
    high: float
    rising: bool = True
    """Of several numbers: whether the last must be greater than the first, as the ends of an interval are."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema  # at the rim only, as all of pydantic

        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def checked(self, value: Any) -> Any:
        """The value, unless it is outside."""
        numbers = value if isinstance(value, tuple) else (value,)
        if not all(self.low <= number <= self.high for number in numbers):
            raise ValueError(f"{self.low:g} to {self.high:g} is possible")
        if isinstance(value, tuple) and self.rising and not value[0] < value[-1]:
            raise ValueError("the first must be less than the second")
        return value


Switch = bool
"""On or off, for comparisons: what a part of the method is worth shows when it is left out."""
Count = Annotated[int, Range(1, 100_000)]
Whole = Annotated[int, Range(0, 100_000)]
Share = Annotated[float, Range(0, 1)]
Size = Annotated[float, Range(1e-6, 1e6)]
"""Above 0: lengths, widths, steps, spreads."""
Weight = Annotated[float, Range(0, 1e9)]
LogLikelihood = Annotated[float, Range(-1e6, 0)]
