#!/usr/bin/env python3
"""A tiny random model of every family that src/checkpoint/arch.c has, with transformers' logits: tests/fixtures/families.

    make_family_fixtures.py [--llama.cpp DIR] [NAME...]

NAME/ holds config.json, model.safetensors and ref.safetensors (tokens, logits): 24 tokens, longer than the window where
there is one. NAME.gguf is what llama.cpp's converter makes of it (DIR is its source tree; without it they are left as
they are). defaults.tsv has what each family's class in transformers has for the keys that a config.json may leave out.
Weights are stored in f16; the logits are computed in f32 from the stored values. Norms and biases are random too.
"""
import json, logging, os, pathlib, shutil, sys, tempfile, warnings

warnings.filterwarnings("ignore")
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402
from transformers.utils import logging as hf_logging  # noqa: E402

hf_logging.disable_progress_bar()
root = pathlib.Path(__file__).parent.parent / "tests/fixtures/families"
TOKENS = [1] + [(i * 29 + i * i * 7 + 5) % 48 for i in range(1, 24)]
BASE = dict(vocab_size=48, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
            num_key_value_heads=1, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GPT2 = dict(vocab_size=48, n_embd=16, n_layer=2, n_head=2, n_positions=32, n_inner=64, bos_token_id=1, eos_token_id=2)
LONG = dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=32,
            short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[2.0, 2.5, 3.0, 3.5])
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, mscale=1.0,
            mscale_all_dim=1.0, llama_4_scaling_beta=0.3)
WINDOW, FOUR = dict(sliding_window=8), dict(sliding_window=8, num_hidden_layers=4)
HEAD = dict(head_dim=8)
GRANITE = dict(embedding_multiplier=12.0, logits_scaling=2.0, residual_multiplier=0.22, attention_multiplier=0.25)
HYBRID = dict(layer_types=["attention", "attention"], intermediate_size=24, shared_intermediate_size=24,
              mamba_n_heads=2)
EXPERTS = dict(num_experts_per_tok=3, moe_intermediate_size=8)
OSS = dict(WINDOW, num_local_experts=5, num_experts_per_tok=2,
           rope_parameters=dict(rope_type="yarn", rope_theta=150000.0, factor=4.0, original_max_position_embeddings=16,
                                beta_fast=32.0, beta_slow=1.0, truncate=False))
NO_GGUF = ("olmoe_clip", "gpt_oss_clamp", "phi_qk_norm",  # llama.cpp's code has other numbers, or no such norm,
           "stablelm_qk_norm", "gpt_bigcode_mha", "granitemoehybrid_experts",  # or the converter loses it
           "qwen2_moe_dense", "qwen3_moe_dense")  # it wants experts in every layer
# name: model_type, what differs from BASE
MODELS = {
    "mistral": ("mistral", dict(WINDOW, **HEAD)),
    "ministral": ("ministral", dict(WINDOW, layer_types=["sliding_attention", "full_attention"], **HEAD)),
    "ministral3": ("ministral3", dict(rope_parameters=YARN, head_dim=16)),
    "qwen2_window": ("qwen2", dict(WINDOW, use_sliding_window=True, max_window_layers=1)),
    "qwen3": ("qwen3", dict(head_dim=16, tie_word_embeddings=True)),
    "phi3": ("phi3", WINDOW),
    "phi4_mini": ("phi3", dict(rope_parameters=dict(LONG, partial_rotary_factor=0.5, short_factor=[1.0, 1.2],
                                                    long_factor=[2.0, 3.0]),
                               original_max_position_embeddings=32, partial_rotary_factor=0.5,
                               tie_word_embeddings=True)),
    "gemma": ("gemma", dict(head_dim=16)),
    "gemma2": ("gemma2", dict(WINDOW, head_dim=16, query_pre_attn_scalar=16)),
    "vaultgemma": ("vaultgemma", dict(WINDOW, head_dim=16, query_pre_attn_scalar=24)),
    "gemma3_text": ("gemma3_text", dict(WINDOW, head_dim=16, query_pre_attn_scalar=16, num_hidden_layers=6,
                                        rope_parameters={"full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                                                         "sliding_attention": dict(rope_type="default", rope_theta=1e4)})),
    "olmo": ("olmo", dict(clip_qkv=0.5)),
    "olmo2": ("olmo2", {}),
    "olmo3": ("olmo3", FOUR),
    "exaone4": ("exaone4", dict(FOUR, sliding_window_pattern=4, **HEAD)),
    "granite": ("granite", GRANITE),
    "smollm3": ("smollm3", dict(num_hidden_layers=4)),
    "stablelm": ("stablelm", dict(use_qkv_bias=True)),
    "stablelm_parallel": ("stablelm", dict(use_parallel_residual=True)),
    "stablelm_qk_norm": ("stablelm", dict(qk_layernorm=True, num_attention_heads=4, num_key_value_heads=2, hidden_size=32,
                                          partial_rotary_factor=0.5)),
    "starcoder2": ("starcoder2", WINDOW),
    "phi": ("phi", dict(num_key_value_heads=2, intermediate_size=64)),
    "phi_qk_norm": ("phi", dict(num_key_value_heads=2, intermediate_size=64, qk_layernorm=True)),
    "gpt_neox": ("gpt_neox", dict(num_key_value_heads=None)),
    "gpt_neox_serial": ("gpt_neox", dict(num_key_value_heads=None, use_parallel_residual=False)),
    "cohere": ("cohere", dict(logit_scale=0.5, use_qk_norm=True)),
    "cohere2": ("cohere2", dict(FOUR, logit_scale=0.5, **HEAD)),
    "falcon": ("falcon", dict(vocab_size=48, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, bos_token_id=1,
                              eos_token_id=2, multi_query=True, parallel_attn=True, bias=False)),
    "falcon_new": ("falcon", dict(vocab_size=48, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
                                  new_decoder_architecture=True, bias=False, bos_token_id=1, eos_token_id=2)),
    "glm": ("glm", dict(HEAD, rms_norm_eps=1e-5)),
    "glm4": ("glm4", HEAD),
    "helium": ("helium", HEAD),
    "ernie4_5": ("ernie4_5", dict(HEAD, use_bias=True)),
    "seed_oss": ("seed_oss", HEAD),
    "cwm": ("cwm", dict(FOUR, **HEAD)),
    "nemotron": ("nemotron", HEAD),
    "arcee": ("arcee", HEAD),
    "apertus": ("apertus", {}),
    "hunyuan_v1_dense": ("hunyuan_v1_dense", HEAD),
    "hunyuan_alpha": ("hunyuan_v1_dense", dict(HEAD, rope_parameters=dict(rope_type="dynamic", alpha=50.0, factor=1.0,
                                                                          rope_theta=10000.0))),
    "gpt_bigcode": ("gpt_bigcode", GPT2),
    "gpt_bigcode_mha": ("gpt_bigcode", dict(GPT2, multi_query=False)),
    "mixtral": ("mixtral", dict(num_local_experts=5, num_experts_per_tok=2)),
    "qwen2_moe": ("qwen2_moe", dict(EXPERTS, num_experts=5, shared_expert_intermediate_size=24)),
    "qwen3_moe": ("qwen3_moe", dict(EXPERTS, num_experts=5, norm_topk_prob=True, **HEAD)),
    "qwen2_moe_dense": ("qwen2_moe", dict(EXPERTS, num_experts=5, shared_expert_intermediate_size=24, intermediate_size=40,
                                          num_hidden_layers=5, decoder_sparse_step=2, mlp_only_layers=[3])),
    "qwen3_moe_dense": ("qwen3_moe", dict(EXPERTS, num_experts=5, norm_topk_prob=True, mlp_only_layers=[0], intermediate_size=40, **HEAD)),
    "olmoe": ("olmoe", dict(num_experts=5, num_experts_per_tok=3)),
    "olmoe_clip": ("olmoe", dict(num_experts=5, num_experts_per_tok=3, clip_qkv=0.5, norm_topk_prob=True)),
    "flex_olmo": ("flex_olmo", dict(num_experts=5, num_experts_per_tok=3)),
    "granitemoe": ("granitemoe", dict(num_local_experts=5, num_experts_per_tok=2, **GRANITE)),
    "granitemoeshared": ("granitemoeshared", dict(num_local_experts=5, num_experts_per_tok=2,
                                                  shared_intermediate_size=24, **GRANITE)),
    "granitemoehybrid": ("granitemoehybrid", dict(HYBRID, num_local_experts=0, num_experts_per_tok=0,
                                                  position_embedding_type="rope", **GRANITE)),
    "granitemoehybrid_experts": ("granitemoehybrid", dict(HYBRID, num_local_experts=5, num_experts_per_tok=2, **GRANITE)),
    "gpt_oss": ("gpt_oss", dict(OSS, **HEAD)),
    "gpt_oss_mxfp4": ("gpt_oss", dict(OSS, hidden_size=64, intermediate_size=32, **HEAD)),
    "gpt_oss_clamp": ("gpt_oss", dict(OSS, swiglu_limit=0.5, swiglu_alpha=1.2, **HEAD)),
}


def config_of(name):
    kind, changes = MODELS[name]
    c = AutoConfig.for_model(kind, **(changes if "vocab_size" in changes else {**BASE, **changes}))
    c._attn_implementation = "eager"
    return c


def randomize(model):
    g = torch.Generator().manual_seed(7)
    for name, p in model.named_parameters():
        x = torch.randn(p.shape, generator=g)
        if p.ndim == 1:
            x = 0.2 * x + (0 if name.endswith("bias") else p.data.float())  # around the value that changes nothing
            x = (256 * x).round() / 256  # 1 + x is exact in f16 too
        elif "embed" in name or "wte" in name or "wpe" in name:
            x = 0.7 * x
        else:
            x = x * (1.3 / p.shape[-1] ** 0.5)
        p.data = x.half().float()
    return model


def quantize_experts(model):
    """Random blocks and scales for the experts, as gpt-oss is published: {name: tensor}."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    g = torch.Generator().manual_seed(8)
    tensors = {}
    for name, p in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, cols, rows = p.shape
            blocks = torch.randint(0, 256, (experts, rows, cols // 32, 16), generator=g, dtype=torch.uint8)
            scales = torch.randint(121, 126, (experts, rows, cols // 32), generator=g, dtype=torch.uint8)
            p.data = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
            tensors.update({name + "_blocks": blocks, name + "_scales": scales})
    return tensors


def publish(d, packed):
    tensors = load_file(d / "model.safetensors")
    kept = {n: t for n, t in tensors.items() if n + "_blocks" not in packed}
    save_file({**kept, **packed}, d / "model.safetensors", {"format": "pt"})
    config = json.loads((d / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.mlp.router", "lm_head"]}
    (d / "config.json").write_text(json.dumps(config, indent=2) + "\n")


def make(name):
    d = root / name
    shutil.rmtree(d, ignore_errors=True)
    c = config_of(name)
    model = randomize(AutoModelForCausalLM.from_config(c, attn_implementation="eager").float().eval())
    packed = quantize_experts(model) if name.endswith("mxfp4") else {}
    with torch.no_grad():
        logits = model(torch.tensor([TOKENS]), use_cache=False).logits[0]
    assert float(logits.std()) > 0.2, (name, float(logits.std()))
    model.half().save_pretrained(d)
    if packed:
        publish(d, packed)
    (d / "generation_config.json").unlink(missing_ok=True)
    save_file({"tokens": torch.tensor(TOKENS, dtype=torch.int32), "logits": logits.contiguous()}, d / "ref.safetensors")
    for f in d.iterdir():
        f.chmod(0o644)


def write_gguf(name, source):
    """llama.cpp's converter, without a vocabulary. False: it does not know the class."""
    sys.path[:0] = [str(source), str(source / "gguf-py")]
    logging.disable(logging.CRITICAL)
    import gguf
    from conversion import get_model_class
    from conversion.base import ModelBase, ModelType, get_model_architecture
    load = ModelBase.load_hparams

    def with_old_keys(directory, is_mistral_format):  # keys that transformers 5 moved into rope_parameters
        h = load(directory, is_mistral_format)
        if h["model_type"] in ("gpt_neox", "cohere2"):
            h["rotary_pct"] = h["rope_parameters"].get("partial_rotary_factor", 1.0)
        if h["model_type"] == "falcon" and not h["new_decoder_architecture"]:
            h["num_kv_heads"] = h["n_head_kv"] = 1
        return h

    out = root / f"{name}.gguf"
    ModelBase.load_hparams = staticmethod(with_old_keys)
    try:
        with tempfile.TemporaryDirectory() as t, torch.inference_mode():
            d = pathlib.Path(t) / name
            shutil.copytree(root / name, d)
            config = d / "config.json"  # Granite 4's layers are called so in the published ones
            config.write_text(config.read_text().replace('"full_attention"', '"attention"' if "granitemoehybrid" in name
                                                         else '"full_attention"'))
            model_class = get_model_class(get_model_architecture(with_old_keys(d, False), ModelType.TEXT))
            vocab = {str(i): i for i in range(BASE["vocab_size"])}
            (d / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}, "added_tokens": []}))
            model_class.set_vocab = lambda self: None
            model_class(d, gguf.LlamaFileType.MOSTLY_F16, out).write()
    except (NotImplementedError, AssertionError):  # not that class, or not with these numbers
        return False
    finally:
        ModelBase.load_hparams = load
    return True


def write_defaults():
    """Families with a config.json that says only the sizes."""
    # 160 heads: every default number of KV heads divides them
    sizes = dict(vocab_size=48, hidden_size=1280, intermediate_size=64, num_hidden_layers=4, num_attention_heads=160)
    lines = ["# model_type\tn_ctx\tn_kv_heads\thead_dim\tnorm_eps\ttheta\trule\trotary_dim\ttied\twindow of each layer"]
    for kind in sorted({kind for kind, _ in MODELS.values()} | {"llama", "qwen2"}):
        if kind in ("gpt_bigcode", "falcon", "granitemoehybrid"):  # the last: no attention by default
            continue
        c = AutoConfig.for_model(kind, **sizes)
        heads = c.num_attention_heads
        head_dim = getattr(c, "head_dim", None) or c.hidden_size // heads
        eps = next((getattr(c, k) for k in ("rms_norm_eps", "layer_norm_eps", "norm_epsilon", "norm_eps") if hasattr(c, k)), 1e-5)
        rope = c.rope_parameters
        rope = rope.get("full_attention", rope)
        window = getattr(c, "sliding_window", None) or 0
        types = getattr(c, "layer_types", None)
        windows = [window if not types or t == "sliding_attention" else 0 for t in types or [None] * 4]
        if kind == "smollm3":
            windows = [0] * 4
        lines.append("\t".join(map(str, [
            kind, c.max_position_embeddings, getattr(c, "num_key_value_heads", None) or heads, head_dim, eps, rope["rope_theta"],
            rope["rope_type"],
            int(head_dim * rope.get("partial_rotary_factor", 1)), int(c.tie_word_embeddings), ",".join(map(str, windows))])))
    (root / "defaults.tsv").write_text("\n".join(lines) + "\n")


def main():
    args = sys.argv[1:]
    source = None
    if args[:1] == ["--llama.cpp"]:
        source = pathlib.Path(args[1])
        args = args[2:]
    root.mkdir(parents=True, exist_ok=True)
    for name in args or MODELS:
        make(name)
        said = write_gguf(name, source) if source and name not in NO_GGUF else "as it was"
        print(f"{name}: GGUF {said}")
    write_defaults()
    print(f"{sum(p.stat().st_size for p in root.rglob('*') if p.is_file())} bytes")


if __name__ == "__main__":
    main()
