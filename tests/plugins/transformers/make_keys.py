"""Writes keys.json: the keys of transformers' configuration classes. See README.md."""

import inspect
import json
import re
from pathlib import Path

import transformers
from transformers import AutoConfig, GenerationConfig, PreTrainedConfig
from transformers.modeling_rope_utils import RopeParameters

MODEL_TYPES = """llama llama4 llama4_text mistral ministral mixtral olmo2 olmo3 qwen2 qwen3 qwen3_moe
    qwen3_vl qwen3_vl_text qwen3_vl_moe qwen3_vl_moe_text qwen3_omni_moe qwen3_next qwen3_5
    qwen3_5_text qwen3_5_moe qwen3_5_moe_text gemma gemma2 gemma3 gemma3_text gemma4 gemma4_text
    gpt2 gpt_oss deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 cohere cohere2 lfm2 phi3""".split()


def shown_type(field):
    kind = field.type
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return re.sub(r"\b(typing|transformers\.[\w.]+)\.", "", text)


def fields(cls, skipped=()):
    names = getattr(cls, "attribute_map", {})
    out = []
    for name, field in cls.__dataclass_fields__.items():
        if name in skipped or "ClassVar" in str(field.type):
            continue
        default = field.default
        if not isinstance(default, (bool, int, float, str, list, type(None))):
            default = None
        key = names.get(name, name)
        out.append({"key": key, "type": shown_type(field), "default": default})
    known = {row["key"] for row in out}
    source = "".join(
        inspect.getsource(cls.__dict__[name])
        for name in ("__post_init__", "convert_rope_params_to_dict")
        if name in cls.__dict__
    )
    older = set(re.findall(r'kwargs\.(?:pop|get|setdefault)\("(\w+)"', source)) | set(names)
    for key in sorted(older - known):
        out.append({"key": key, "type": "other name", "default": None})
    return out


base = fields(PreTrainedConfig)
skipped = set(PreTrainedConfig.__dataclass_fields__)
generation = sorted(GenerationConfig._get_default_generation_params())
classes = []
for model_type in MODEL_TYPES:
    cls = type(AutoConfig.for_model(model_type))
    classes.append({"model_type": model_type, "class": cls.__name__, "keys": fields(cls, skipped)})
Path(__file__).with_name("keys.json").write_text(
    json.dumps(
        {
            "transformers": transformers.__version__,
            "base": base,
            "generation": generation,
            "rope": sorted(RopeParameters.__annotations__),
            "classes": classes,
        },
        indent=1,
    )
    + "\n"
)
