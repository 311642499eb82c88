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
            raise OptionError("device is cuda, but torch finds no such GPU here: use auto or cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    if name == "mps" and not torch.backends.mps.is_available():
        raise OptionError("device is mps, but torch finds no Apple GPU here: use auto or cpu")
    return torch.device(name)


def seed_draws(seed: int, device: torch.device) -> None:
    """Let torch draw from this seed on the CPU and on the device.

    ``torch.manual_seed`` does so for every device there could be, and writes down the call stack each time: 2 ms.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
