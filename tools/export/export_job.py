"""What the exporter needs to know about one model."""
from dataclasses import dataclass
from typing import Callable, Optional

from torch import nn


@dataclass
class Job:
    """One model ready to be exported.

    make_inputs(batch, length) returns forward's positional arguments; it is
    called again with other sizes for --alt. A model whose example inputs are
    fixed has fixed_inputs instead.
    """

    module: nn.Module
    make_inputs: Optional[Callable[[int, int], tuple]] = None
    fixed_inputs: Optional[tuple] = None
    alt_inputs: Optional[tuple] = None
    script: bool = False
    # Weights that were trained stay as they are; all others are made random.
    trained: bool = False
    # Exported in training mode.
    training: bool = False
