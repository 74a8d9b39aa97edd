# SPDX-License-Identifier: Apache-2.0
"""Model families at tiny size: configurations only, the code is what ships in transformers.

Weights are drawn so that activations and attention scores are of order one; those that a new model
starts with would leave attention all but uniform.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers


@dataclass(frozen=True)
class Family:
    """One architecture: its class, its configuration and what it is given."""

    model: str
    config: str
    settings: dict[str, Any]
    inputs: Callable[..., dict[str, torch.Tensor]]

    def make(self, **settings: Any) -> torch.nn.Module:
        """Return the model on the CPU, the same each time, in evaluation mode."""
        torch.manual_seed(0)
        values = {**copy.deepcopy(self.settings), **settings}
        config = getattr(transformers, self.config)(**values)
        model = getattr(transformers, self.model)(config)
        enliven(model)
        return model.eval()


def enliven(model: torch.nn.Module) -> None:
    """Give weights the size that keeps activations of order one."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() < 2:
                if name.endswith("bias") or "norm" in name.lower():
                    weight.add_(noise * 0.1)
            elif "A_log" not in name:
                of_experts = weight.dim() == 3 and "experts" in name
                fan = weight.shape[-1] if of_experts else weight[0].numel()
                weight.copy_(noise / (4 if "embed" in name.lower() else fan) ** 0.5)


# --- inputs ---------------------------------------------------------------------------------------


def _draw(*size: int, low: int | None = None, high: int = 100) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    if low is None:
        return torch.randn(size, generator=generator)
    return torch.randint(low, high, size, generator=generator)


def text(
    batch: int = 2, length: int = 12, padding: str | None = "right"
) -> dict[str, torch.Tensor]:
    """Token ids; all rows but the first are padded on a side."""
    ids = _draw(batch, length, low=3)
    if padding is None:
        return {"input_ids": ids}
    mask = torch.ones_like(ids)
    part = length // 3
    mask[1:, slice(length - part, None) if padding == "right" else slice(0, part)] = 0
    return {"input_ids": ids, "attention_mask": mask}


def _both_ends(**sizes: Any) -> dict[str, torch.Tensor]:
    target = text(sizes.get("batch", 2), 5, None)
    return {**text(**sizes), "decoder_input_ids": target["input_ids"]}


def _picture(size: int) -> Callable[..., dict[str, torch.Tensor]]:
    return lambda batch=2, **_: {"pixel_values": _draw(batch, 3, size, size)}


def _captioned(**sizes: Any) -> dict[str, torch.Tensor]:
    return {**text(**sizes), **_picture(32)(**sizes)}


def _wave(batch: int = 2, **_: Any) -> dict[str, torch.Tensor]:
    return {"input_values": _draw(batch, 800)}


def _spectrum(batch: int = 2, **_: Any) -> dict[str, torch.Tensor]:
    ids = text(batch, 5, None)["input_ids"]
    return {"input_features": _draw(batch, 16, 100), "decoder_input_ids": ids}


def _series(batch: int = 2, **_: Any) -> dict[str, torch.Tensor]:
    return {"past_values": _draw(batch, 32, 2)}


# --- configurations -------------------------------------------------------------------------------

_SMALL = {
    "vocab_size": 100,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
_TOKENS = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
_LLAMA = {**_SMALL, **_TOKENS, "num_key_value_heads": 2, "max_position_embeddings": 128}
_EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 4}
_QWEN_EXPERTS = {"num_experts_per_tok": 2, "num_experts": 4, "moe_intermediate_size": 32}
_GRANITE = {
    **_LLAMA,
    "embedding_multiplier": 2.0,
    "residual_multiplier": 0.5,
    "attention_multiplier": 0.25,
    "logits_scaling": 2.0,
}
_MAMBA = {
    "mamba_n_heads": 8,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
    "mamba_expand": 2,
}
_VISION = {**_SMALL, "image_size": 32, "patch_size": 8}
del _VISION["vocab_size"]
_ENDS = {
    "vocab_size": 100,
    "d_model": 64,
    **{
        f"{end}_{name}": n
        for end in ("encoder", "decoder")
        for name, n in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 128))
    },
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
_STAGES = {"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 1, 1]}
_GPT = {"vocab_size": 100, "n_embd": 64, "n_layer": 2, "n_head": 4, **_TOKENS}
_WAVES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "conv_dim": (32, 32, 32),
    "conv_stride": (5, 2, 2),
    "conv_kernel": (10, 3, 2),
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
}


def _family(name: str, kind: str, inputs: Any = text, **settings: Any) -> Family:
    return Family(name + kind, name.removesuffix("LMHead") + "Config", settings, inputs)


ENCODERS = {
    "bert": _family("Bert", "Model", **_SMALL),
    "roberta": _family("Roberta", "Model", **_SMALL),
    "distilbert": _family(
        "DistilBert", "Model", vocab_size=100, dim=64, n_layers=2, n_heads=4, hidden_dim=128
    ),
    "albert": _family("Albert", "Model", **_SMALL, embedding_size=32),
    "electra": _family("Electra", "Model", **_SMALL, embedding_size=32),
    "mpnet": _family("MPNet", "Model", **_SMALL),
    "deberta-v2": _family(
        "DebertaV2",
        "Model",
        **_SMALL,
        relative_attention=True,
        position_buckets=8,
        pos_att_type=["p2c", "c2p"],
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        max_position_embeddings=64,
    ),
    # Masks of the lowest number, or of -inf, are added twice.
    "longformer": _family("Longformer", "Model", **_SMALL, attention_window=[4, 4]),
    "xlnet": _family(
        "XLNet", "Model", vocab_size=100, d_model=64, n_layer=2, n_head=4, d_inner=128
    ),
    "layoutlm": _family("LayoutLM", "Model", **_SMALL),
    "squeezebert": _family("SqueezeBert", "Model", **_SMALL, embedding_size=64),
    "modernbert": _family(
        "ModernBert",
        "Model",
        **_SMALL,
        global_attn_every_n_layers=2,
        local_attention=8,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
    ),
}
DECODERS = {
    "gpt2": _family("GPT2LMHead", "Model", **_GPT),
    "gpt-neox": _family("GPTNeoX", "ForCausalLM", **_SMALL, **_TOKENS, max_position_embeddings=128),
    "opt": _family(
        "OPT",
        "ForCausalLM",
        **{k: v for k, v in _SMALL.items() if k != "intermediate_size"},
        **_TOKENS,
        ffn_dim=128,
        word_embed_proj_dim=64,
    ),
    "bloom": _family(
        "Bloom", "ForCausalLM", vocab_size=100, hidden_size=64, n_layer=2, n_head=4, **_TOKENS
    ),
    "llama": _family("Llama", "ForCausalLM", **_LLAMA),
    "mistral": _family("Mistral", "ForCausalLM", **_LLAMA, sliding_window=8),
    "mixtral": _family("Mixtral", "ForCausalLM", **_LLAMA, **_EXPERTS, sliding_window=None),
    "qwen2": _family("Qwen2", "ForCausalLM", **_LLAMA),
    "qwen3": _family("Qwen3", "ForCausalLM", **_LLAMA, head_dim=16),
    "qwen2-moe": _family(
        "Qwen2Moe", "ForCausalLM", **_LLAMA, **_QWEN_EXPERTS, shared_expert_intermediate_size=64
    ),
    "gemma": _family("Gemma", "ForCausalLM", **_LLAMA, head_dim=16),
    "gemma2": _family(
        "Gemma2", "ForCausalLM", **_LLAMA, head_dim=16, sliding_window=8, query_pre_attn_scalar=16
    ),
    "gemma3": Family(
        "Gemma3ForCausalLM",
        "Gemma3TextConfig",
        {
            **_LLAMA,
            "head_dim": 16,
            "sliding_window": 8,
            "query_pre_attn_scalar": 16,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        text,
    ),
    "phi": _family("Phi", "ForCausalLM", **_LLAMA),
    "phi3": _family("Phi3", "ForCausalLM", **_LLAMA),
    "granite": _family("Granite", "ForCausalLM", **_GRANITE),
    "granite-moe": _family("GraniteMoe", "ForCausalLM", **_GRANITE, **_EXPERTS),
    "granite-hybrid": _family(
        "GraniteMoeHybrid",
        "ForCausalLM",
        **_GRANITE,
        **_EXPERTS,
        **_MAMBA,
        shared_intermediate_size=64,
        layer_types=["mamba", "attention"],
    ),
    "bamba": _family("Bamba", "ForCausalLM", **_LLAMA, **_MAMBA, attn_layer_indices=[1]),
    "gpt-neo": _family(
        "GPTNeo",
        "ForCausalLM",
        vocab_size=100,
        hidden_size=64,
        num_layers=2,
        num_heads=4,
        intermediate_size=128,
        attention_types=[[["global", "local"], 1]],
        window_size=4,
        max_position_embeddings=64,
        **_TOKENS,
    ),
    "deepseek-v3": _family(
        "DeepseekV3",
        "ForCausalLM",
        **{**_LLAMA, "num_key_value_heads": 4},
        moe_intermediate_size=32,
        n_routed_experts=8,
        num_experts_per_tok=2,
        n_group=2,
        topk_group=1,
        n_shared_experts=1,
        first_k_dense_replace=1,
        q_lora_rank=32,
        kv_lora_rank=32,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=16,
    ),
    "gpt-oss": _family(
        "GptOss",
        "ForCausalLM",
        **_LLAMA,
        **_EXPERTS,
        head_dim=16,
        sliding_window=8,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    ),
    "gptj": _family(
        "GPTJ",
        "ForCausalLM",
        vocab_size=100,
        n_embd=64,
        n_layer=2,
        n_head=4,
        rotary_dim=8,
        **_TOKENS,
    ),
    "mpt": _family("Mpt", "ForCausalLM", vocab_size=100, d_model=64, n_layers=2, n_heads=4),
    "olmo2": _family("Olmo2", "ForCausalLM", **_LLAMA),
    "cohere": _family("Cohere", "ForCausalLM", **_LLAMA),
    "stablelm": _family("StableLm", "ForCausalLM", **_LLAMA),
    "starcoder2": _family("Starcoder2", "ForCausalLM", **_LLAMA),
    "rwkv": _family(
        "Rwkv",
        "ForCausalLM",
        vocab_size=100,
        hidden_size=64,
        attention_hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=128,
        context_length=64,
        **_TOKENS,
    ),
    "recurrent-gemma": _family(
        "RecurrentGemma",
        "ForCausalLM",
        **_LLAMA,
        head_dim=16,
        lru_width=64,
        attention_window_size=8,
        block_types=["recurrent", "attention"],
    ),
    "jamba": _family(
        "Jamba",
        "ForCausalLM",
        **_LLAMA,
        num_experts=4,
        num_experts_per_tok=2,
        attn_layer_period=2,
        attn_layer_offset=1,
        expert_layer_period=2,
        expert_layer_offset=1,
        mamba_d_state=8,
        mamba_dt_rank=8,
        use_mamba_kernels=False,
    ),
    "falcon": _family("Falcon", "ForCausalLM", **_SMALL, **_TOKENS, ffn_hidden_size=128),
    "mamba": _family(
        "Mamba",
        "ForCausalLM",
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=2,
        state_size=8,
        **_TOKENS,
    ),
    "mamba2": _family(
        "Mamba2",
        "ForCausalLM",
        vocab_size=100,
        hidden_size=64,
        num_hidden_layers=2,
        state_size=16,
        num_heads=8,
        head_dim=16,
        n_groups=1,
        chunk_size=8,
        **_TOKENS,
    ),
}
OTHERS = {
    "t5": _family(
        "T5",
        "ForConditionalGeneration",
        _both_ends,
        vocab_size=100,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    ),
    "bart": _family(
        "Bart", "ForConditionalGeneration", _both_ends, **_ENDS, max_position_embeddings=64
    ),
    "pegasus": _family(
        "Pegasus", "ForConditionalGeneration", _both_ends, **_ENDS, max_position_embeddings=64
    ),
    "led": _family(
        "LED",
        "ForConditionalGeneration",
        _both_ends,
        **_ENDS,
        attention_window=4,
        max_encoder_position_embeddings=128,
        max_decoder_position_embeddings=64,
    ),
    "prophetnet": _family(
        "ProphetNet",
        "ForConditionalGeneration",
        _both_ends,
        vocab_size=100,
        hidden_size=64,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        num_encoder_layers=1,
        num_decoder_layers=1,
        num_encoder_attention_heads=4,
        num_decoder_attention_heads=4,
        max_position_embeddings=64,
        decoder_start_token_id=1,
    ),
    "switch": _family(
        "SwitchTransformers",
        "ForConditionalGeneration",
        _both_ends,
        vocab_size=100,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_sparse_encoder_layers=1,
        num_decoder_layers=2,
        num_sparse_decoder_layers=1,
        num_heads=4,
        num_experts=4,
        decoder_start_token_id=0,
    ),
    "whisper": _family(
        "Whisper",
        "ForConditionalGeneration",
        _spectrum,
        **_ENDS,
        num_mel_bins=16,
        max_source_positions=50,
        max_target_positions=32,
    ),
    "vit": _family("ViT", "Model", _picture(32), **_VISION),
    "clip": _family(
        "CLIP",
        "Model",
        _captioned,
        text_config={**_SMALL, "max_position_embeddings": 32, "eos_token_id": 2, "bos_token_id": 1},
        vision_config=_VISION,
        projection_dim=32,
    ),
    "siglip": _family(
        "Siglip",
        "Model",
        _captioned,
        text_config={**_SMALL, "max_position_embeddings": 32},
        vision_config=_VISION,
    ),
    "swin": _family(
        "Swin",
        "Model",
        _picture(32),
        image_size=32,
        patch_size=4,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
        drop_path_rate=0.0,
    ),
    "beit": _family("Beit", "Model", _picture(32), **_VISION, drop_path_rate=0.0),
    "dinov2": _family("Dinov2", "Model", _picture(32), **_VISION),
    "focalnet": _family(
        "FocalNet",
        "Model",
        _picture(32),
        image_size=32,
        patch_size=4,
        embed_dim=16,
        hidden_sizes=[16, 32],
        depths=[1, 1],
        focal_levels=[2, 2],
        focal_windows=[3, 3],
        drop_path_rate=0.0,
    ),
    "convnext": _family("ConvNext", "Model", _picture(64), **_STAGES),
    "resnet": _family(
        "ResNet", "Model", _picture(64), **_STAGES, embedding_size=16, layer_type="basic"
    ),
    "detr": _family(
        "Detr",
        "ForObjectDetection",
        _picture(64),
        **{
            k: v
            for k, v in _ENDS.items()
            if k.startswith(("encoder", "decoder_", "d_model")) and k != "decoder_start_token_id"
        },
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config={
            "model_type": "resnet",
            **_STAGES,
            "embedding_size": 16,
            "layer_type": "basic",
            "out_features": ["stage4"],
        },
        num_queries=5,
    ),
    "wav2vec2": _family("Wav2Vec2", "Model", _wave, **_WAVES),
    "hubert": _family("Hubert", "Model", _wave, **_WAVES),
    "patchtst": _family(
        "PatchTST",
        "ForPrediction",
        _series,
        context_length=32,
        num_input_channels=2,
        prediction_length=4,
        patch_length=8,
        patch_stride=8,
        d_model=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
    ),
}
ALL = {**ENCODERS, **DECODERS, **OTHERS}
