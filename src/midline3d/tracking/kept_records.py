"""Records of tensors as a result keeps them: nested mappings of arrays and what JSON can say."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch

from midline3d.shapes import Tensor

_RECORD, _TENSOR, _GENERATOR, _TUPLE = "@record", "@tensor", "@generator", "@tuple"


def plain(value: Any, records: Collection[str], left_out: Collection[str] = ()) -> Any:
    """Records and tensors as nested mappings.

    records: names of the classes that may be kept; left_out: names of fields that are not, in whatever record.
    """
    if isinstance(value, Tensor):
        # In one order, whatever views it went through: sums of the same numbers in another order round otherwise.
        return {_TENSOR: np.array(value.detach().cpu().numpy(), order="C"), "device": value.device.type}
    if isinstance(value, torch.Generator):
        return {_GENERATOR: value.get_state().numpy()}
    if isinstance(value, tuple):
        return {_TUPLE: [plain(item, records, left_out) for item in value]}
    if isinstance(value, list | deque):
        return [plain(item, records, left_out) for item in value]
    if is_dataclass(value) and type(value).__name__ in records:
        kept = [item.name for item in fields(value) if item.name not in left_out]
        return {_RECORD: type(value).__name__} | {name: plain(getattr(value, name), records, left_out) for name in kept}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a run cannot keep a {type(value).__name__} yet: add it to the records of a checkpoint")


def whole(content: Any, records: Mapping[str, Callable[..., Any]], device: torch.device) -> Any:
    """What `plain` took apart, put together; what was not on the CPU is brought to the device.

    records: what makes a record of its fields, by the name of its class.
    """
    if isinstance(content, list):
        return [whole(item, records, device) for item in content]
    if not isinstance(content, dict):
        return content
    if _TUPLE in content:
        return tuple(whole(item, records, device) for item in content[_TUPLE])
    if _TENSOR in content:
        tensor = torch.from_numpy(content[_TENSOR])
        return tensor if content["device"] == "cpu" else tensor.to(device)
    if _GENERATOR in content:
        generator = torch.Generator()
        generator.set_state(torch.from_numpy(content[_GENERATOR]))
        return generator
    named = {name: whole(value, records, device) for name, value in content.items() if name != _RECORD}
    return records[content[_RECORD]](**named)
