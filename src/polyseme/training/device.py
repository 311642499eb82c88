"""Choosing the torch device, and seeding its random numbers."""

from __future__ import annotations

import os

import torch

from polyseme.errors import OptionError


def chosen_device(name: str) -> torch.device:
    """The device of this name; ``auto`` is a GPU if there is one. torchrun's processes are spread over several GPUs."""
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
    """Seed torch's generators on the CPU and on the device.

    ``torch.manual_seed`` does this for every possible device and records the call stack each time, which takes 2 ms.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    elif device.type == "mps":
        torch.mps.manual_seed(seed)
