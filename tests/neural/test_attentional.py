"""The packed attentional decoder against torch's LSTMCell and autograd, one sentence and one word at a time."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from polyseme.neural.batches import Packing, mask_of
from polyseme.neural.decoder import AttendedStates, LayerWeights, packed_decoder

SOURCE, TARGET = [3, 5, 1, 2], [2, 4, 6, 4]  # lengths of the four sentences
EMBEDDED, SIZE, ROWS = 5, 8, len(SOURCE)


def inputs(n_layers: int, dtype: torch.dtype) -> dict[str, Tensor]:
    torch.manual_seed(n_layers)
    shapes = {
        "x": (ROWS, max(TARGET), EMBEDDED), "states": (ROWS, max(SOURCE), SIZE), "keys": (ROWS, max(SOURCE), SIZE),
        "h": (n_layers, ROWS, SIZE), "c": (n_layers, ROWS, SIZE), "join": (SIZE, 2 * SIZE),
    }  # fmt: skip
    return {name: torch.randn(shape, dtype=dtype, requires_grad=True) for name, shape in shapes.items()}


def word_by_word(cells: list[nn.LSTMCell], given: dict[str, Tensor], kept: Tensor) -> Tensor:
    """h̃ ``(B, T, H)``, zero after the end of a sentence."""
    found = torch.zeros(ROWS, max(TARGET), SIZE, dtype=given["x"].dtype)
    for row in range(ROWS):
        states, keys = (given[name][row, : SOURCE[row]] for name in ("states", "keys"))
        hs, cs = [list(given[name][:, row]) for name in "hc"]
        fed = torch.zeros_like(hs[0])
        for t in range(TARGET[row]):
            below = torch.cat([given["x"][row, t], fed])
            for number, cell in enumerate(cells):
                hs[number], cs[number] = cell(below, (hs[number], cs[number]))
                below = hs[number] * kept[number, row, t]
            weights = torch.softmax(keys @ hs[-1], dim=0)
            fed = torch.tanh(given["join"] @ torch.cat([weights @ states, hs[-1]]))
            found[row, t] = fed
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("dropped", [False, True])
def test_outputs_and_gradients_are_those_of_torch_word_by_word(n_layers: int, dtype: torch.dtype, dropped: bool):
    given = inputs(n_layers, dtype)
    cells = [nn.LSTMCell(EMBEDDED + SIZE if not n else SIZE, SIZE, dtype=dtype) for n in range(n_layers)]
    parameters = [*given.values(), *(parameter for cell in cells for parameter in cell.parameters())]
    kept = torch.ones(n_layers, ROWS, max(TARGET), SIZE, dtype=dtype)
    if dropped:
        kept[:-1] = torch.randint(0, 2, kept[:-1].shape).to(dtype) * 2
    expected = word_by_word(cells, given, kept)
    slope = torch.randn_like(expected)
    of_torch = torch.autograd.grad((expected * slope).sum(), parameters)

    packing = Packing.of(TARGET)
    order = torch.from_numpy(packing.order)
    places = torch.from_numpy(packing.row), torch.from_numpy(packing.time[0])
    found = packed_decoder(
        given["x"][places],
        packing.sizes,
        AttendedStates(given["states"][order], given["keys"][order], mask_of(SOURCE, max(SOURCE), order.device)[order]),
        given["h"][:, order],
        given["c"][:, order],
        [LayerWeights(cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh) for cell in cells],
        given["join"],
        kept[:-1, places[0], places[1]] if dropped else None,
    )
    torch.testing.assert_close(found, expected[places])
    ours = torch.autograd.grad((found * slope[places]).sum(), parameters)
    for one, other in zip(ours, of_torch, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_words_behind_the_end_of_a_sentence_are_not_attended_to():
    given = inputs(1, torch.float32)
    cell = nn.LSTMCell(EMBEDDED + SIZE, SIZE)
    packing = Packing.of([1] * ROWS)
    mask = mask_of(SOURCE, max(SOURCE), torch.device("cpu"))
    both = []
    for states in (given["states"], given["states"].masked_fill(~mask[:, :, None], torch.nan)):
        source = AttendedStates(states, given["keys"], mask)
        weights = [LayerWeights(cell.weight_ih, cell.weight_hh, cell.bias_ih + cell.bias_hh)]
        both.append(packed_decoder(given["x"][:, 0], packing.sizes, source, given["h"], given["c"], weights,
                                   given["join"]))  # fmt: skip
    torch.testing.assert_close(*both)
