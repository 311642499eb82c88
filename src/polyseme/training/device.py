"""The one place where a device is chosen."""

from __future__ import annotations

import os

import torch

from polyseme.errors import OptionError


def chosen_device(name: str) -> torch.device:
    """The device an option names; ``auto`` is a GPU where there is one. Of several, torchrun's processes take turns."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "cuda":
        if not torch.cuda.is_available():
            raise OptionError("device is cuda, and torch finds no such GPU here: use auto or cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if name == "mps" and not torch.backends.mps.is_available():
        raise OptionError("device is mps, and this is no Mac with a GPU that torch can use: use auto or cpu")
    return torch.device(name)
