#!/usr/bin/env python3
"""docs/models.md: every family, how far its logits are from transformers', what sets it apart, where its files differ.

    models_table.py [RUN] >docs/models.md      runs every fixture of tests/fixtures/families and prints the page
    models_table.py --check [RUN]              compares the page with such a run: all but the digits of the errors

The errors are measured, the other columns are read out of the table of families, src/checkpoint/arch.c.
"""
import json, os, pathlib, re, struct, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ROOT / "tests/fixtures/families"
ALLOWED = 1e-4

# What a trait or a key of a row means for the forward pass.
KNOBS = [
    (r"BLOCK\(LAYERNORM|GPT,", "LayerNorm"), ("ARCH_BARE_NORMS", "norms without weights"),
    ("ARCH_PLUS_1", "1 + weight in norms"), ("ARCH_POST_NORMS", "norms after the blocks"),
    ("ARCH_NO_PRE_NORM", "none before them"), ("ARCH_PARALLEL|KEY_PARALLEL", "parallel blocks"),
    ("QK_NORM_HEAD", "q/k norm of each head"), ("QK_NORM_EACH_HEAD", "q/k norm, weights for each head"),
    ("QK_NORM_WHOLE", "q/k norm of all heads at once"), ("QK_NORM_AFTER_ROPE", "q/k norm after RoPE"),
    (r"WINDOW\(|NO_WINDOW", "sliding window"), ("ARCH_LOCAL_ROPE", "RoPE of its own in windowed layers"),
    ("ARCH_FULL_WITHOUT_ROPE|KEY_NO_ROPE_INTERVAL", "layers without RoPE"), ("KEY_PARTIAL_ROTARY", "partial RoPE"),
    ("ARCH_HYBRID", "no RoPE where position_embedding_type says it"),
    (r"BLOCK\(\w+, \w+, LEARNED", "learned positions"),
    ("KEY_QUERY_SCALAR|KEY_ATTN_SCALE|GRANITE_SCALES", "scale of the scores"), ("KEY_ATTN_SOFTCAP", "soft caps"),
    ("KEY_CLAMP", "clamp of q, k and v"), ("ARCH_SINKS", "attention sinks"), ("KEY_TEMPERATURE", "temperature by position"),
    ("ARCH_SQRT_EMBEDDING", "sqrt(dim) on the embedding"), ("KEY_EMB_SCALE|GRANITE_SCALES", "multipliers"),
    ("KEY_LOGIT_SCALE, NULL", "scale of the logits"), ("GEGLU, ROPE", "GeGLU"), ("GELU_ERF", "exact GELU MLP"),
    (r"GELU, (ROPE|LEARNED)|GPT,", "GELU MLP"), ("RELU2", "ReLU^2 MLP"), ("XIELU", "xIELU MLP"), ("SWIGLU_OSS", "clamped SwiGLU"),
    ("(LOCAL|NUM)_EXPERTS", "experts"), (r"RENORMALIZE\(", "renormalised where norm_topk_prob says it"),
    (r"ARCH_RENORMALIZED(?![\s\S]*RENORMALIZE\()", "renormalised"),
    ("SPARSE_STEP", "layers without experts"), ("KEY_SHARED_DIM", "an expert for all tokens"), ("qkv_bias = BIAS_ALWAYS", "biases of q, k, v"),
    ("ARCH_HEAD_BIAS", "bias of the head"), ("ARCH_NTK_ALPHA", "static NTK by alpha"),
]
FILES = [
    ("PERMUTED", "GGUF: q and k reordered to adjacent pairs"), ("PAIRS", "adjacent pairs in both"),
    ("FIELD_QKV,|fused_qkv", "q, k and v in one tensor"), ("FIELD_GATE_UP,|gate_up", "gate and up in one"),
    ("GRANITE_EXPERTS", "all experts in one tensor"), ("SPLIT_COLUMNS", "experts as [in, out], gate and up alternating, or in blocks of MXFP4"),
    ("ARCH_PLUS_1", "GGUF: 1 + weight folded in"), ("ARCH_DIVIDED_LOGITS", "GGUF: logit_scale divides"),
    ("ARCH_SWAPPED_NORMS", "GGUF: its norms have each other's names"), ("ARCH_CONV1D", "matrices as [in, out]"),
    (r"^(?![\s\S]*GRANITE_EXPERTS)[\s\S]*EXPERTS\(", "GGUF: all experts in one tensor"),
]


def rows():
    """{model_type: [(gguf architecture or None, the row's text)]} in the table's order; two where experts tell them apart."""
    text = (ROOT / "src/checkpoint/arch.c").read_text()
    text = text[text.index("const Arch archs[]"):text.index("const int n_archs")]
    out = {}
    for row in re.split(r"\n    (?=\{\")", text)[1:]:
        name, gguf = re.match(r'\{"(\w+)", "\w+",\s*(NULL|"[\w.-]+")', row).groups()
        out.setdefault(name, []).append((None if gguf == "NULL" else gguf.strip('"'), row))
    return out


def reference(path):
    data = path.read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])

    def values(name, code):
        a, b = header[name]["data_offsets"]
        return struct.unpack(f"<{(b - a) // 4}{code}", data[8 + n + a:8 + n + b])
    return values("tokens", "i"), values("logits", "f")


def error(run, model, tokens, logits, *flags):
    """The largest difference from transformers' logits, relative to the largest of them."""
    p = subprocess.run([run, str(model), "-m", "logits", "--tokens", ",".join(map(str, tokens)), "--all", "--json", "-c", str(len(tokens)), *flags],
                       capture_output=True, text=True, env={**os.environ, "RUN_CPU": "ref"})
    if p.returncode:
        sys.exit(f"models_table: {p.stderr.strip()}")
    got = [x for row in json.loads(p.stdout)["logits"] for x in row]
    return max(abs(a - b) for a, b in zip(got, logits)) / max(map(abs, logits))


def words(table, row):
    return ", ".join(dict.fromkeys(text for pattern, text in table if re.search(pattern, row)))


def page(run):
    table, lines, worst = rows(), [], 0
    leaves_out = re.search(r"those\[\] = \{([^}]*)\}", (ROOT / "tests/test_fixtures.c").read_text())[1]
    for d in sorted(FAMILIES.iterdir(), key=lambda d: d.name):
        if not (d / "ref.safetensors").exists():
            continue
        config = json.loads((d / "config.json").read_text())
        kind = config["model_type"]
        gguf, row = next(r for r in table[kind] if len(table[kind]) == 1 or
                         ("LOCAL_EXPERTS(" in r[1]) == (config["num_local_experts"] > 0))
        tokens, logits = reference(d / "ref.safetensors")
        errors = [error(run, d, tokens, logits), error(run, d, tokens, logits, "--batch", "1")]
        file = FAMILIES / f"{d.name}.gguf"
        other = f'"{d.name}"' in leaves_out  # the converter leaves its window out: another model
        if file.exists() and not other:
            errors.append(error(run, file, tokens, logits))
        worst = max(worst, *errors)
        shown = [f"{x:.0e}" for x in errors] + ["no window" if other else "none"] * (3 - len(errors))
        title = d.name if d.name == kind else f"{kind} ({d.name})"
        files = words([f for f in FILES if gguf or not f[1].startswith("GGUF")], row)
        lines.append(f"| {title} | {gguf or ''} | {' | '.join(shown)} | {words(KNOBS, row)} | {files} |")
    assert worst <= ALLOWED, worst
    without = sorted(set(table) - {json.loads((d / "config.json").read_text())["model_type"]
                                   for d in FAMILIES.iterdir() if (d / "config.json").exists()})
    return "\n".join([
        "# Models", "",
        "Every family that the table of [`src/checkpoint/arch.c`](../src/checkpoint/arch.c) has a fixture for. A fixture is a tiny model",
        "with random weights, norms and biases too, as transformers saves it and as llama.cpp's converter writes it to GGUF",
        "(`scripts/make_family_fixtures.py`). Errors are those of 24 tokens at all positions, longer than the window where there is",
        "one, against transformers in float32, relative to the largest logit: all tokens at once, one by one, from GGUF. This page",
        "is printed by `python3 scripts/models_table.py`; whether it still holds:", "",
        "    $ python3 scripts/models_table.py --check",
        f"    {len(lines)} models of {len(table) - len(without)} families: within {ALLOWED:g} of transformers, and as docs/models.md says", "",
        "| family | GGUF | at once | one by one | from GGUF | beside a LLaMA | files |", "|---|---|---|---|---|---|---|",
        *lines, "",
        f"Without a row here, since they have fixtures elsewhere or are LLaMA's row with other names: {', '.join(without)}.", "",
        "A setting of a config.json or GGUF that changes the maths and that no row has is refused by name. So is a GGUF that cannot",
        "say what the model has: `-m convert` names it. What llama.cpp's code decides and the file does not say is decided as there:",
        "the renormalisation of Qwen3-MoE's experts, gpt-oss' clamp, the pattern of Gemma's windows.", "",
        "Gemma 3 270M in Q4_K_M, by `-m convert --type f32` made a GGUF of f32: the greedy text of 64 tokens is llama.cpp's for each of",
        "four prompts (f32 activations and cache on both sides; the Q4_K blocks themselves llama.cpp multiplies in 8 bits).", "",
    ])


def main():
    args = [a for a in sys.argv[1:] if a != "--check"]
    run = args[0] if args else os.environ.get("RUN", str(ROOT / "run"))
    text = page(run)
    if "--check" not in sys.argv:
        print(text, end="")
        return
    digits = re.compile(r"\| \de-\d\d (?=\|)")
    have, want = (digits.sub("| x ", s).splitlines() for s in ((ROOT / "docs/models.md").read_text(), text))
    for a, b in zip(have + [""] * len(want), want + [""] * len(have)):
        if a != b:
            sys.exit(f"docs/models.md: expected '{b[:160]}', found '{a[:160]}'")
    print(next(line.strip() for line in want if "models of" in line and "families:" in line))


if __name__ == "__main__":
    main()
