# SPDX-License-Identifier: Apache-2.0
"""An index is read on the device, after the operator has returned: one out of range raises
IndexError at the next synchronisation, whatever the CPU's exception, and nothing is touched there.
"""

import pytest
import torch
import torch.nn.functional as F

# Far ones, and ones whose product with a stride does not fit into 64 bits.
BAD = [3, -4, 1 << 20, -(1 << 31), (1 << 63) - 1, -(1 << 63)]
# Negative indices that an indexing expression counts from the end.
ROWS = torch.arange(12.0).reshape(3, 4)


def column(index: int, width: int = 4) -> torch.Tensor:
    return torch.tensor([[0], [index], [1]], device="spyre").expand(3, width)


def row(index: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor([0, index], dtype=dtype, device="spyre")


CASES = {
    "gather": lambda x, i: torch.gather(x, 0, column(i)),
    "scatter": lambda x, i: x.scatter_(0, column(i), x.clone()),
    "scatter of a number": lambda x, i: x.scatter_(0, column(i), 7.0),
    "scatter_add": lambda x, i: x.scatter_add_(0, column(i), x.clone()),
    "scatter_reduce": lambda x, i: x.scatter_reduce_(0, column(i), x.clone(), "amax"),
    "take": lambda x, i: torch.take(x, row(i if abs(i) > 20 else 100)),
    "index_select": lambda x, i: torch.index_select(x, 0, row(i)),
    "index_add": lambda x, i: x.index_add_(0, row(i), x[:2].clone()),
    "index_copy": lambda x, i: x.index_copy_(0, row(i), x[:2].clone()),
    "index_fill": lambda x, i: x.index_fill_(0, row(i), 7.0),
    "index": lambda x, i: x[row(i)],
    "index of two": lambda x, i: x[row(0), row(max(i, 4) if i > 0 else min(i, -5))],
    "index_put": lambda x, i: x.index_put_((row(i),), torch.tensor(7.0, device="spyre")),
    "index_put adding": lambda x, i: x.index_put_((row(i),), x[:2].clone(), accumulate=True),
    "embedding": lambda x, i: F.embedding(row(i), x),
    "nll_loss": lambda x, i: F.nll_loss(
        x, torch.tensor([0, 1, i if i != 3 else 4], device="spyre")
    ),
}


@pytest.mark.filterwarnings("ignore:aten.*runs on the CPU")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("index", BAD)
def test_an_index_out_of_range(name: str, index: int) -> None:
    around = torch.full((9, 4), -1.0, device="spyre")
    x = around[3:6]
    x.copy_(ROWS)
    torch.spyre.synchronize()
    with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
        CASES[name](x, index)
        torch.spyre.synchronize()
    outside = around.cpu()
    assert (outside[:3] == -1).all()
    assert (outside[6:] == -1).all()
    assert (torch.ones(2, device="spyre") + 1).tolist() == [2, 2]


def test_an_index_out_of_range_is_an_index_error_of_the_next_wait() -> None:
    x = ROWS.to("spyre")
    found = torch.gather(x, 0, column(7))  # the CPU raises RuntimeError here
    with pytest.raises(IndexError, match="index 7 is out of range for a size of 3"):
        found.cpu()
