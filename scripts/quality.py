#!/usr/bin/env python3
"""Prints the table "Quality" of docs/quantisation.md for a model and a text.

usage: scripts/quality.py MODEL TEXT [--calibrate TEXT2] [--lamina PATH] [--tokens N] [--adapter-steps N]

MODEL is a plain model (a Hugging Face directory, or a run of `lamina train`), TEXT was not seen in
training. Each row compares a form of the model with MODEL itself: perplexity, mean KL divergence in
nats per token, tokens with the same likeliest next token, bytes of the weights. Not part of the tests:
it takes minutes, and its numbers depend on the model.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

FORMATS = ["int8", "fp8", "int4", "int4-g64", "int4-g128", "mxfp4", "nvfp4"]
CALIBRATED = ["int4", "int4-g64", "int4-g128", "mxfp4"]
BUDGETS = [("int4-g128", "4.5"), ("int4", "5"), ("int4", "6")]


def run(*words):
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(words)}\n{result.stderr}")
    return result.stdout


def plan_bytes(lamina, model, *more):
    plan = json.loads(run(lamina, "plan", model, "--json", *more))
    return sum(plan["stored_weight_bytes"].values()) or plan["weight_bytes"]["bfloat16"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", metavar="MODEL", help="a plain model: a Hugging Face directory or a run")
    parser.add_argument("text", metavar="TEXT", help="the text to measure with, not seen in training")
    parser.add_argument("--calibrate", metavar="TEXT2", help="a text for error feedback, and to train adapters on")
    parser.add_argument("--lamina", metavar="PATH", default="build/release/bin/lamina",
                        help="the program (default %(default)s)")
    parser.add_argument("--tokens", metavar="N", default="256", help="tokens of a window of TEXT (default 256)")
    parser.add_argument("--adapter-steps", type=int, default=0,
                        metavar="N",
                        help="also train adapters for N steps over plain, int8 and int4 weights; needs --calibrate")
    a = parser.parse_args()
    if a.adapter_steps and not a.calibrate:
        parser.error("--adapter-steps needs --calibrate TEXT2: adapters must not be trained on TEXT")

    def row(name, model, *more, size=None):
        e = json.loads(run(a.lamina, "eval", "-m", model, "--against", a.model, "--data", a.text, "--tokens", a.tokens, "--json", *more))
        change = 100 * (e["perplexity"] / e["reference_perplexity"] - 1)
        size = f"{size / 1e6:.2f}" if size else ""
        print(f"| {name} | {e['perplexity']:.4f} | {change:+.3f} % | {e['mean_kl']:.2g} | {100 * e['top1_agreement']:.2f} % | {size} |", flush=True)

    print("| weights | perplexity | change | mean KL | top-1 equal | MB |\n|---|---|---|---|---|---|")
    row("bfloat16", a.model, size=plan_bytes(a.lamina, a.model, "--dtype", "bfloat16"))
    for f in FORMATS:
        row(f"`{f}`", a.model, "--quantize", f, size=plan_bytes(a.lamina, a.model, "--quantize", f))
    row("`int8`, embedding and head too", a.model, "--quantize", "int8", "--quantize-rule", "embedding=int8",
        size=plan_bytes(a.lamina, a.model, "--quantize", "int8", "--quantize-rule", "embedding=int8"))
    with tempfile.TemporaryDirectory() as folder:

        def quantised(name, *more):
            to = str(pathlib.Path(folder) / f"q{len(list(pathlib.Path(folder).iterdir()))}")
            run(a.lamina, "quantize", a.model, "--to", to, *more)
            row(name, to, size=plan_bytes(a.lamina, to))

        if a.calibrate:
            for f in CALIBRATED:
                quantised(f"`{f} --calibrate`", "--format", f, "--calibrate", a.calibrate)
        for f, bits in BUDGETS:
            quantised(f"`{f} --target-bits {bits}`", "--format", f, "--target-bits", bits)
            if a.calibrate:
                quantised(f"`{f} --target-bits {bits} --calibrate`", "--format", f, "--target-bits", bits, "--calibrate", a.calibrate)
        for kv in ["int8", "fp8"]:
            row(f"bfloat16, keys and values `{kv}`", a.model, "--kv-dtype", kv)
        if a.adapter_steps:
            for f in [None, "int8", "int4"]:
                out = str(pathlib.Path(folder) / f"adapter-{f}")
                pathlib.Path(folder, "run.toml").write_text(
                    f'[data]\ntrain = ["{pathlib.Path(a.calibrate).resolve()}"]\nsequence_length = {a.tokens}\n[train]\nfrom = "{pathlib.Path(a.model).resolve()}"\n'
                    f'steps = {a.adapter_steps}\nbatch_size = 4\ndtype = "bfloat16"\n[lora]\nrank = 8\n[optimizer]\nlr = 3e-4\n[run]\nout = "{out}"\nseed = 1\n')
                more = ["--quantize", f] if f else []
                run(a.lamina, "train", str(pathlib.Path(folder, "run.toml")), *more)
                name = f"`{f}`, with an adapter" if f else "bfloat16 with an adapter"
                row(name, out, *(["--packed"] if f else []))


if __name__ == "__main__":
    main()
