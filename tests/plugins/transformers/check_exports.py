"""Fresh exports of every family, in transformers: python check_exports.py LAMINA WORK_FOLDER [FAMILY...]

For each family a small model is made from a run file (one step of training), exported, loaded by
AutoModelForCausalLM, and its log-probabilities are compared with those of `lamina eval`. Needs
transformers and torch. See README.md.
"""

import json
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

SIZES = dict(vocab_size=384, hidden_size=32, num_hidden_layers=4)
HEADS = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=8)
DENSE = dict(SIZES, **HEADS, intermediate_size=48)
LATENT = dict(
    SIZES, intermediate_size=48, num_attention_heads=4, q_lora_rank=16, kv_lora_rank=16,
    qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, moe_intermediate_size=16,
    n_routed_experts=8, num_experts_per_tok=2, first_k_dense_replace=1, n_group=2, topk_group=1,
)
DELTA = dict(
    linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8,
    linear_value_head_dim=8, partial_rotary_factor=0.5,
)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
FAMILIES = {
    "llama2": DENSE,
    "llama4": dict(DENSE, intermediate_size_mlp=48, num_local_experts=4, interleave_moe_layer_step=2),
    "mistral": dict(DENSE, sliding_window=8),
    "mixtral": dict(DENSE, num_local_experts=4),
    "cohere": DENSE,
    "cohere2": dict(DENSE, sliding_window=8),
    "lfm2": dict(DENSE, full_attn_idxs=[1, 3]),
    "olmo2": DENSE,
    "olmo3": dict(DENSE, sliding_window=8, sliding_rope_theta=1000.0),
    "qwen2": DENSE,
    "qwen3": dict(DENSE, use_sliding_window=True, sliding_window=8, max_window_layers=2),
    "qwen3_moe": dict(DENSE, **EXPERTS),
    "qwen3_next": dict(DENSE, **DELTA, **EXPERTS, shared_expert_intermediate_size=16),
    "qwen3_vl": DENSE,
    "qwen3_vl_moe": dict(DENSE, **EXPERTS),
    "qwen3_omni_moe": dict(DENSE, **EXPERTS),
    "qwen3_5": dict(DENSE, **DELTA),
    "qwen3_5_moe": dict(DENSE, **DELTA, **EXPERTS, shared_expert_intermediate_size=16),
    "gemma": DENSE,
    "gemma2": dict(DENSE, sliding_window=8),
    "gemma3": dict(DENSE, sliding_window=8, sliding_window_pattern=2, rope_theta=5000.0),
    "gemma4": dict(
        DENSE, sliding_window=8, global_head_dim=16, hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=384,
    ),
    "gpt3": dict(SIZES, num_attention_heads=4, max_position_embeddings=64),
    "gpt_oss": dict(DENSE, num_local_experts=4, num_experts_per_tok=2, sliding_window=8),
    "deepseek_v2": LATENT,
    "deepseek": LATENT,
    "deepseek without shared experts": dict(LATENT, n_shared_experts=0),
    "deepseek4": dict(
        SIZES, num_attention_heads=4, head_dim=16, q_lora_rank=16, qk_rope_head_dim=8, o_groups=2,
        o_lora_rank=16, moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=2,
        num_hash_layers=1, index_n_heads=2, index_head_dim=16, index_topk=4, sliding_window=8,
    ),
}
REFUSED = {"qwen3_vl", "qwen3_vl_moe", "qwen3_omni_moe"}  # published with encoders only
TEXT = "The river rose and the light was upon a deep water. " * 3


TOKENS = 4


def toml(value):
    return "true" if value is True else "false" if value is False else json.dumps(value)


def run(folder, *words):
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout


def export(lamina, folder, family, model):
    """A fresh model after one step, as folder/hf."""
    folder.mkdir(parents=True)
    (folder / "text.txt").write_text(TEXT * 20)
    lines = [f'family = "{family.split()[0]}"', "[model]"]
    lines += [f"{key} = {toml(value)}" for key, value in model.items()]
    lines += ["[data]", 'train = ["text.txt"]', 'form = "text"', "sequence_length = 32"]
    lines += ["[train]", "steps = 1", "batch_size = 2", "[optimizer]", "lr = 0.01"]
    (folder / "run.toml").write_text("\n".join(lines) + "\n")
    run(folder, lamina, "train", "run.toml", "--set", 'run.out="run"')
    run(folder, lamina, "ckpt", "export", "run", "--to", "hf", "--dtype", "float32")


def expect_refusal(lamina, folder, family, model):
    try:
        export(lamina, folder, family, model)
    except subprocess.CalledProcessError as error:
        if error.returncode == 4 and "with encoders that a fresh model lacks" in error.stderr:
            return
        raise
    raise ValueError("was exported")


def difference(lamina, folder):
    """The largest difference of a log-probability of the likeliest tokens."""
    ids = list(TEXT.encode()[:24])
    ours = json.loads(run(
        folder, lamina, "decode", "-m", "hf", "--ids", ",".join(map(str, ids)), "--dtype", "float32",
        "-n", str(TOKENS), "--temp", "0", "--ignore-eos", "--logprobs", "5", "--json"))
    hf, info = AutoModelForCausalLM.from_pretrained(
        folder / "hf", dtype=torch.float32, output_loading_info=True, attn_implementation="eager")
    sizes = {name: value.numel() for name, value in hf.state_dict().items()}
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        # Zero shared experts are matrices without elements there.
        names = [name for name in map(str, info[kind]) if sizes.get(name) != 0]
        if names:
            raise ValueError(f"{kind}: {sorted(names)[:3]}")
    worst = 0.0
    for place in ours["logprobs"]:
        with torch.no_grad():
            logprobs = hf(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
        for top in place["top"]:
            worst = max(worst, abs(float(logprobs[top["id"]]) - top["logprob"]))
        ids.append(place["id"])
    return worst


def main():
    lamina, work, chosen = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    failed = []
    for family, model in FAMILIES.items():
        if chosen and family not in chosen:
            continue
        try:
            if family in REFUSED:
                expect_refusal(lamina, work / family, family, model)
                print(f"{family}: refused")
                continue
            export(lamina, work / family, family, model)
            worst = difference(lamina, work / family)
            print(f"{family}: largest difference {worst:.2g}")
            if worst > 1e-4:
                failed.append(family)
        except subprocess.CalledProcessError as error:
            failed.append(family)
            print(f"{family}: lamina: {error.stderr[-600:]}")
        except Exception as error:  # what a class refuses, in its own words
            failed.append(family)
            print(f"{family}: {type(error).__name__}: {str(error)[:400]}")
    if failed:
        sys.exit(f"failed: {failed}")


main()
