#!/usr/bin/env python3
"""Makes a case for `lamina verify` from a model of Hugging Face transformers.

    make_case.py DIR OUT            a published model: its weights and config.json are copied
    make_case.py config.json OUT    random weights for a configuration; --set changes its keys

OUT gets config.json, model.safetensors, golden.safetensors and golden.json, as docs/verify.md
describes them: logits, loss, the gradient of every tensor, hidden states, outputs of attention and
feed-forward of each layer, rows of several documents, and greedy tokens through the cache. Tensors
have their published names, by transformers' own conversion. Everything is computed in float32 from
the files in OUT; a second run in float64 measures the rounding.

Needs torch and transformers 5. Example, in an empty virtual environment:

    pip install torch transformers
    make_case.py config.json cases/small --set num_hidden_layers=3 --set hidden_size=48
"""

import argparse
import inspect
import json
import os
import shutil
import sys
import tempfile

import safetensors
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.core_model_loading import revert_weight_conversion

IGNORED = -100  # a label that is not counted
INPUTS = ("input_ids", "labels", "position_ids", "segment_ids", "prompt_ids")  # ends of names
# Names of the children of a layer whose outputs are recorded, for each kind of output.
CHILDREN = {
    "attn": ("self_attn", "attn", "attention", "self_attention", "linear_attn", "temporal_block", "mixer", "mamba", "conv",
             "short_conv"),
    "mlp": ("mlp", "mlp_block", "feed_forward", "ffn", "moe", "block_sparse_moe", "experts"),
}
DEFAULT_TOLERANCE = {
    "logits_max_abs": 1e-4,
    "loss_abs": 1e-5,
    "hidden_max_abs_over_max": 2e-5,
    "grad_max_abs_over_max": 1e-4,
}


def fail(message, *hints):
    sys.exit("\n".join([f"error: {message}", *(f"  {hint}" for hint in hints)]))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="DIR_OR_CONFIG", help="a model directory, or a config.json")
    parser.add_argument("out", metavar="OUT", help="directory of the case; must not exist")
    parser.add_argument("--set", metavar="KEY=JSON", action="append", default=[], dest="changes",
                        help="another value of a key of config.json, with random weights only; repeatable")
    parser.add_argument("--seed", type=int, default=1, help="of weights and tokens (default 1)")
    parser.add_argument("--rows", type=int, default=2, help="rows of tokens (default 2)")
    parser.add_argument("--tokens", type=int, default=37, help="tokens per row; more than a window (default 37)")
    parser.add_argument("--prompt", type=int, default=7, help="tokens of the prompt (default 7)")
    parser.add_argument("--new", type=int, default=24, help="greedy tokens after it (default 24)")
    parser.add_argument("--dtype", default="bfloat16", choices=("bfloat16", "float16", "float32"),
                        help="of random weights in the file (default bfloat16)")
    parser.add_argument("--attention", default="eager", choices=("eager", "sdpa"),
                        help="implementation of attention in transformers (default eager)")
    parser.add_argument("--whole-up-to", type=int, default=65536, metavar="N",
                        help="a gradient of more elements becomes 128 samples and a norm (default 65536)")
    parser.add_argument("--no-packed", action="store_true", help="omit rows of several documents")
    parser.add_argument("--what", default="", help="a line about the case, for golden.json")
    parser.add_argument("--trust-remote-code", action="store_true", help="run code of the model directory")
    return parser.parse_args()


# --- the model -------------------------------------------------------------------------------------


def load(directory, dtype, args):
    """Returns the model of the directory in eval mode, with the chosen attention and plain expert loops."""
    model = AutoModelForCausalLM.from_pretrained(
        directory, dtype=dtype, attn_implementation=args.attention, experts_implementation="eager",
        trust_remote_code=args.trust_remote_code)
    return model.eval()


def draw(model, seed):
    """Draws weights that hide no mistake: no zeros, no ones, and activations of unit size."""
    generator = torch.Generator().manual_seed(seed)
    parameters = dict(model.named_parameters())
    for name, value in model.state_dict().items():
        if not value.is_floating_point() or (name not in parameters and name.endswith("inv_freq")):
            continue
        noise = torch.randn(value.shape, generator=generator)
        if value.ndim >= 2 and name in parameters:
            value.copy_(noise * value.shape[-1] ** -0.5)
        else:  # norms, biases, decays: near the values that the architecture starts with
            value.add_(0.2 * noise)


def write_random_model(args):
    """Writes OUT/config.json, as given, and random weights."""
    path = os.path.join(args.model, "config.json") if os.path.isdir(args.model) else args.model
    with open(path) as file:
        config = json.load(file)
    for change in args.changes:
        key, _, value = change.partition("=")
        try:
            config[key] = json.loads(value)
        except json.JSONDecodeError:
            fail(f"--set {change}: '{value}' is not JSON; expected a number, true, null, a list or \"text\"")
    with open(os.path.join(args.out, "config.json"), "w") as file:
        json.dump(config, file, indent=2)
        file.write("\n")
    torch.manual_seed(args.seed)
    model = AutoModelForCausalLM.from_config(
        AutoConfig.from_pretrained(args.out, trust_remote_code=args.trust_remote_code),
        dtype=torch.float32, trust_remote_code=args.trust_remote_code)
    draw(model, args.seed)
    with tempfile.TemporaryDirectory() as folder:
        model.to(getattr(torch, args.dtype)).save_pretrained(folder)
        for name in os.listdir(folder):
            if "safetensors" in name:
                shutil.move(os.path.join(folder, name), args.out)


def copy_code(args):
    """Copies the Python files of a model directory to OUT, if they may be run: config.json names them."""
    if args.trust_remote_code and os.path.isdir(args.model):
        for name in os.listdir(args.model):
            if name.endswith(".py"):
                shutil.copy(os.path.join(args.model, name), args.out)


def weight_files(path):
    if not os.path.isdir(path):
        return []
    return [name for name in os.listdir(path)
            if name.endswith((".safetensors", ".safetensors.index.json")) and not name.startswith("golden.")]


def write_model(args):
    """Writes config.json and weights to OUT."""
    copy_code(args)
    files = weight_files(args.model)
    if not files:
        return write_random_model(args)
    if args.changes:
        fail(f"--set cannot be combined with the weights in {args.model}", "name its config.json instead")
    for name in ["config.json", *files]:
        shutil.copy(os.path.join(args.model, name), args.out)


def published(model, values):
    """Returns values of parameters, by name, under the names and in the layout of published files."""
    out = revert_weight_conversion(model, values)
    return {name: value.detach().float().contiguous() for name, value in out.items()}


# --- values inside layers --------------------------------------------------------------------------


def first_tensor(value):
    return value[0] if isinstance(value, (tuple, list)) else value


def added_by(module, inputs, named):
    """Returns the residual that a module gets and adds to its output, as in BLOOM and MPT, or 0."""
    signature = inspect.signature(module.forward)
    return signature.bind(*inputs, **named).arguments["residual"] if "residual" in signature.parameters else 0


def layers_of(model):
    """Returns the list of decoder layers: the ModuleList of num_hidden_layers modules with the shortest name."""
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    found = [(name.count("."), name, module) for name, module in model.named_modules()
             if isinstance(module, torch.nn.ModuleList) and len(module) == count]
    return min(found)[2] if found else []


class Recorder:
    """Records hidden.embed, hidden.<i>, attn.<i> and mlp.<i> of the next call of the model."""

    def __init__(self, model):
        self.values, self.hooks = {}, []
        for i, layer in enumerate(layers_of(model)):
            if i == 0:
                self.hooks.append(layer.register_forward_pre_hook(self.record_input, with_kwargs=True))
            self.watch(layer, f"hidden.{i}")
            for kind, names in CHILDREN.items():
                children = [child for name, child in layer.named_children() if name in names]
                if len(children) == 1:  # with two, their sum has no module
                    self.watch(children[0], f"{kind}.{i}")

    def record_input(self, _, inputs, named):
        value = inputs[0] if inputs else named["hidden_states"]
        self.values["hidden.embed"] = value.detach().float().clone()

    def watch(self, module, name):
        def record(_, inputs, named, output):
            value = first_tensor(output)
            if torch.is_tensor(value) and value.ndim >= 3:
                if not name.startswith("hidden."):
                    value = value - added_by(module, inputs, named)
                self.values[name] = value.detach().float().clone()
        self.hooks.append(module.register_forward_hook(record, with_kwargs=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()


class Ties:
    """Counts the choices of top-k between equal values, eg zeros behind a relu: the definition leaves open
    which of them is taken, so implementations differ."""

    def __init__(self):
        self.count, self.topk = 0, torch.Tensor.topk

    def choose(self, values, k, dim=-1, **options):
        if k < values.shape[dim]:
            last, next_one = self.topk(values, k + 1, dim).values.narrow(dim, k - 1, 2).unbind(dim)
            masked = last <= torch.finfo(values.dtype).min / 2
            self.count += int(((last == next_one) & ~masked).sum())
        return self.topk(values, k, dim, **options)

    def __enter__(self):
        torch.Tensor.topk = torch.topk = lambda *values, **options: self.choose(*values, **options)
        return self

    def __exit__(self, *_):
        torch.Tensor.topk = torch.topk = self.topk


# --- rows of tokens --------------------------------------------------------------------------------


def usable_ids(config):
    """Returns the ids of ordinary tokens: not padding, ends, or placeholders of images."""
    special = set()
    for part in (config, config.get_text_config(decoder=True)):
        for key, value in part.to_dict().items():
            if key.endswith(("_token_id", "_token_index")):
                special.update(value if isinstance(value, list) else [value])
    return torch.tensor([i for i in range(config.get_text_config(decoder=True).vocab_size) if i not in special])


def draw_rows(ids, generator, rows, tokens):
    """Returns ids and labels [rows, tokens]; a tenth of the labels is not counted."""
    chosen = ids[torch.randint(len(ids), (rows, tokens), generator=generator)]
    labels = torch.where(torch.rand(rows, tokens, generator=generator) < 0.1, IGNORED, chosen)
    return chosen, labels


def document_lengths(tokens):
    """Returns the lengths of a row's documents: two of them, then three, in turn."""
    return [[tokens * 5 // 11, tokens - tokens * 5 // 11],
            [tokens // 4, tokens * 2 // 5, tokens - tokens // 4 - tokens * 2 // 5]]


def summed_loss(logits, labels):
    """Returns the sum of cross-entropies: each label is predicted by the token before."""
    return torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1),
        ignore_index=IGNORED, reduction="sum")


def counted(labels):
    return int((labels[..., 1:] != IGNORED).sum())


# --- quantities ------------------------------------------------------------------------------


def gradients_of(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def adds_balance_loss(model):
    """Returns whether the model computes a balance loss; some classes have the key, but no such loss."""
    text = model.config.get_text_config(decoder=True)
    return getattr(text, "output_router_logits", False) and hasattr(model, "router_aux_loss_coef")


def forward_case(model, ids, labels):
    """Returns logits, loss, values inside layers, and gradients under published names."""
    model.zero_grad(set_to_none=True)
    with Recorder(model) as recorder:
        result = model(input_ids=ids, use_cache=False)
    loss = summed_loss(result.logits, labels) / counted(labels)
    out = {"logits": result.logits.detach(), **recorder.values}
    if adds_balance_loss(model):
        out |= {"ce_loss": loss.detach().reshape(1), "aux_loss": result.aux_loss.detach().reshape(1)}
        loss = loss + model.router_aux_loss_coef * result.aux_loss
    loss.backward()
    out["loss"] = loss.detach().reshape(1)
    for name, value in published(model, gradients_of(model)).items():
        out[f"grad.{name}"] = value
    return out


def packed_case(model, ids, labels):
    """Returns packed.*: rows of documents, each of which is run by itself."""
    documents, positions, segments, labels = [], torch.zeros_like(ids), torch.zeros_like(ids), labels.clone()
    for row in range(len(ids)):
        start = 0
        for document, length in enumerate(document_lengths(ids.shape[1])[row % 2]):
            part = slice(start, start + length)
            labels[row, start] = IGNORED
            positions[row, part], segments[row, part] = torch.arange(length), document + 1
            documents.append((row, part))
            start += length
    model.zero_grad(set_to_none=True)
    logits, total = [], 0
    for row, part in documents:
        alone = model(input_ids=ids[row:row + 1, part], use_cache=False).logits
        total = total + summed_loss(alone, labels[row:row + 1, part])
        logits.append(alone[0].detach())
    packed = {"input_ids": ids, "labels": labels, "position_ids": positions, "segment_ids": segments,
              "logits": torch.cat(logits).reshape(*ids.shape, -1)}
    if not adds_balance_loss(model):  # a balance loss is about all documents at once
        loss = total / counted(labels)
        loss.backward()
        packed["loss"] = loss.detach().reshape(1)
        for name, value in published(model, gradients_of(model)).items():
            packed[f"grad.{name}"] = value
    return {f"packed.{name}": value for name, value in packed.items()}


def greedy_case(model, ids, args, generator, tolerance):
    """Returns a prompt and greedy tokens through the cache, and the gap between the best two logits.
    Draws prompts until no choice hangs on rounding, and the cache changes no logit by more than `tolerance`."""
    options = GenerationConfig(max_new_tokens=args.new, min_new_tokens=args.new, do_sample=False, use_cache=True,
                               pad_token_id=int(ids[0]), output_logits=True, return_dict_in_generate=True)
    model.generation_config = options
    least = float("inf")  # difference of logits with and without the cache
    for _ in range(20):
        prompt = ids[torch.randint(len(ids), (1, args.prompt), generator=generator)]
        with torch.no_grad():
            made = model.generate(prompt, attention_mask=torch.ones_like(prompt))
            logits = torch.cat(made.logits).float()
            new = made.sequences[0, args.prompt:]
            best = logits.topk(2).values
            gap = float((best[:, 0] - best[:, 1]).min())
            whole = model(input_ids=made.sequences[:, :-1], use_cache=False).logits[0, args.prompt - 1:]
        difference = float((whole - logits).abs().max())
        least = min(least, difference)
        if gap >= 1e-3 and torch.equal(whole.argmax(-1), new) and difference <= tolerance:
            break
    else:
        if least > tolerance:
            fail(f"transformers contradicts itself: for each of 20 prompts, logits with and without the cache differ by "
                 f"{least:.2g} or more, and {tolerance:.2g} is allowed",
                 "positions that depend on the length of the text (dynamic, longrope) differ in the cache beyond the "
                 "original context: try fewer tokens with --prompt and --new; Mamba-2 limits time steps in prompts only: "
                 "use weights whose time steps are within time_step_limit")
        fail("after 20 prompts, greedy tokens still hang on rounding, or differ with and without the cache",
             "try another --seed, or fewer tokens with --new")
    return {"prompt_ids": prompt[0], "greedy_ids": new, "greedy_logits": logits}, {
        "min_top2_gap": gap, "greedy_distinct_ids": len(set(new.tolist())),
        "cached_minus_full_logits": difference}


def largest(value):
    return float(value.abs().max()) if value.numel() else 0.0


def rounding(args, got, ids, labels):
    """Returns the differences of float32 and float64, or None if the model does not run in float64."""
    try:
        wanted = forward_case(load(args.out, torch.float64, args), ids, labels)
    except RuntimeError as error:
        print(f"note: no run in float64 ({str(error).splitlines()[0]}); tolerances are the defaults")
        return None
    size = max(largest(v) for k, v in wanted.items() if k.startswith("grad."))

    def relative(prefixes):
        return max((largest(got[k] - v) / max(largest(v), 1e-2 * size if "grad" in k else 1e-30)
                    for k, v in wanted.items() if k.startswith(prefixes)), default=0.0)

    return {"logits_max_abs": largest(got["logits"] - wanted["logits"]),
            "loss": largest(got["loss"] - wanted["loss"]),
            "hidden_max_rel": relative(("hidden.", "attn.", "mlp.")),
            "grad_max_abs_over_max": relative("grad.")}


def tolerances(noise):
    """Returns the defaults, or eight times the measured rounding where that is more."""
    out = dict(DEFAULT_TOLERANCE)
    for key, measured in zip(out, ("logits_max_abs", "loss", "hidden_max_rel", "grad_max_abs_over_max")):
        out[key] = max(out[key], 8 * noise[measured]) if noise else out[key]
    return out


# --- files -----------------------------------------------------------------------------------------


def thinned(name, value, limit):
    """Returns the tensor, or 128 of its elements and its L2 norm if it is a large gradient."""
    if "grad." not in name or value.numel() <= limit:
        return {name: value}
    flat = value.flatten()
    picked = torch.tensor([i * 2654435761 % flat.numel() for i in range(128)])
    return {name.replace("grad.", "grad_sample.", 1): flat[picked],
            name.replace("grad.", "grad_norm.", 1): flat.double().norm().float().reshape(1)}


def write_golden(args, tensors):
    """Writes golden.safetensors. Returns the number of quantities that `lamina verify` compares."""
    out = {}
    for name, value in tensors.items():
        value = value.to(torch.float32 if value.is_floating_point() else torch.int32)
        out.update(thinned(name, value, args.whole_up_to))
    save_file({name: value.contiguous() for name, value in out.items()}, os.path.join(args.out, "golden.safetensors"))
    return sum(not name.endswith(INPUTS) for name in out)


def tensor_names(directory):
    names = set()
    for name in weight_files(directory):
        if name.endswith(".safetensors"):
            with safetensors.safe_open(os.path.join(directory, name), "pt") as file:
                names.update(file.keys())
    return names


def write_info(args, model, tensors, greedy, noise):
    """Writes golden.json, and the configuration in transformers' own form as config.v5.json."""
    names = tensor_names(args.out)
    gradients = {name.removeprefix("grad.") for name in tensors if name.startswith("grad.")}
    for name in sorted(gradients - names):
        print(f"warning: '{name}' has a gradient, and the files have no tensor of that name; "
              f"compare transformers' conversion with the published names")
    info = {
        "family": model.config.model_type,
        "case": os.path.basename(os.path.normpath(args.out)),
        "what": args.what,
        "made_by": "make_case.py",
        "options": {name: value for name, value in vars(args).items() if name not in ("model", "out", "what")},
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__,
                     "transformers": transformers.__version__, "safetensors": safetensors.__version__},
        "parameters": sum(p.numel() for p in model.parameters()),
        **greedy,
        "without_gradient": sorted(names - gradients),
        "float32_minus_float64": noise,
        "tolerance": tolerances(noise),
        "notes": [],
    }
    with open(os.path.join(args.out, "golden.json"), "w") as file:
        json.dump(info, file, indent=2)
        file.write("\n")
    with tempfile.TemporaryDirectory() as folder:
        AutoConfig.from_pretrained(args.out, trust_remote_code=args.trust_remote_code).save_pretrained(folder)
        shutil.move(os.path.join(folder, "config.json"), os.path.join(args.out, "config.v5.json"))


def main():
    args = arguments()
    if os.path.exists(args.out):
        fail(f"{args.out} exists; expected a new directory")
    if not os.path.exists(args.model):
        fail(f"{args.model}: no such file or directory; expected a model directory or a config.json")
    torch.set_num_threads(1)  # sums in one order
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    os.makedirs(args.out)
    write_model(args)
    model = load(args.out, torch.float32, args)
    generator = torch.Generator().manual_seed(args.seed)
    ids = usable_ids(model.config)
    rows, labels = draw_rows(ids, generator, args.rows, args.tokens)
    with Ties() as ties:
        tensors = {"input_ids": rows, "labels": labels, **forward_case(model, rows, labels)}
    noise = rounding(args, tensors, rows, labels)
    if noise and noise["logits_max_abs"] > 1e-3:
        fail(f"float32 and float64 differ by {noise['logits_max_abs']:.2g} in logits: a choice hangs on rounding, or the model "
             "magnifies it",
             "try another --seed; if each one differs, fewer layers magnify less")
    with ties:
        if not args.no_packed:
            tensors.update(packed_case(model, *draw_rows(ids, generator, args.rows, args.tokens)))
        # Positions with dynamic scaling keep the frequencies of the longest row so far.
        model = load(args.out, torch.float32, args)
        greedy, about_greedy = greedy_case(model, ids, args, generator, tolerances(noise)["logits_max_abs"])
    if ties.count:
        fail(f"{ties.count} choices of top-k are between equal values", "try another --seed")
    tensors.update(greedy)
    compared = write_golden(args, tensors)
    write_info(args, model, tensors, about_greedy, noise)
    print(f"{args.out}: {compared} quantities, computed with {args.attention} attention; compare with: lamina verify {args.out}")


if __name__ == "__main__":
    main()
