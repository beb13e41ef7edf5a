#include "gen/flags.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "checkpoint/mistake.h"

#define AT(field) offsetof(Options, field)

/* Modes by their letters (modes.c). */
#define TEXTS  "gc"          /* generate one text */
#define ANY    TEXTS "n"     /* one or many */
#define PROMPT "gctlpxa"     /* read one */
#define RUNS   "gclpxbvan"   /* run the model */
#define MODELS "gclpxbvaion" /* open it */

static const char RULES[] = "none|linear|dynamic|yarn|llama3|longrope|ntk";

const Flag flags[] = {
    {'m', "mode", TEXT, GROUP_GENERAL, NULL, AT(mode), 0, 0, NULL, "MODE", "what to do, default generate"},
    {'z', "tokenizer", TEXT, GROUP_GENERAL, NULL, AT(tokenizer), 0, 0, NULL, "PATH",
     "tokenizer.bin, sentencepiece .model, tokenizer.json, a directory or a .gguf"},
    {'j', "threads", INTEGER, GROUP_GENERAL, NULL, AT(threads), 1, 1024, NULL, "N",
     "default: physical cores this process may use"},
    {0, "quiet", FLAG, GROUP_GENERAL, NULL, AT(quiet), 0, 0, NULL, "", "no statistics, no warnings, no progress"},
    {0, "version", FLAG, GROUP_GENERAL, NULL, AT(version), 0, 0, NULL, "", "print version, kernels and libraries"},
    {'h', "help", FLAG, GROUP_GENERAL, NULL, AT(help), 0, 0, NULL, "", "this text; --help MODE: what one mode uses"},

    {'i', "prompt", TEXT, GROUP_PROMPT, PROMPT, AT(prompt), 0, 0, NULL, "TEXT", "prompt"},
    {'f', "file", TEXT, GROUP_PROMPT, PROMPT "n", AT(prompt_file), 0, 0, NULL, "PATH",
     "prompt from a file; '-': standard input, also read when it is no terminal and no prompt is given; batch: the "
     "lines of JSON"},
    {'e', "escape", FLAG, GROUP_PROMPT, PROMPT, AT(escape), 0, 0, NULL, "",
     "\\n \\t \\\\ \\\" and \\xHH in -i are characters"},
    {0, "tokens", TOKENS, GROUP_PROMPT, "gtlpa", 0, 0, 0, NULL, "1,2,3", "token ids in place of text"},
    {'y', "system", TEXT, GROUP_PROMPT, "c", AT(system), 0, 0, NULL, "TEXT", "system prompt"},
    {0, "chat-template", TEXT, GROUP_PROMPT, "cn", AT(chat_template), 0, 0, NULL, "NAME",
     "or FILE: chat template in place of the model's own"},
    {0, "no-special", FLAG, GROUP_PROMPT, PROMPT "n", AT(no_special), 0, 0, NULL, "",
     "the text of special tokens in a prompt is plain text"},
    {0, "no-bos", FLAG, GROUP_PROMPT, "gtlpxan", AT(no_bos), 0, 0, NULL, "", "leave out BOS"},

    {'t', "temperature", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.temperature), 0, 1e6, NULL, "X",
     "default 1.0, in chat the model's or 0.7; 0 is greedy"},
    {'p', "top-p", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.top_p), 0, 1, NULL, "X",
     "smallest set of tokens that holds this probability, default 0.9"},
    {0, "top-k", INTEGER, GROUP_SAMPLING, ANY "l", AT(sampler.top_k), 0, INT_MAX, NULL, "N",
     "only the N likeliest tokens; 0: off; logits: how many to show, default 10"},
    {0, "min-p", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.min_p), 0, 1, NULL, "X",
     "only tokens with X times the largest probability; 0: off"},
    {0, "repeat-penalty", ABOVE_ZERO, GROUP_SAMPLING, ANY, AT(sampler.repeat_penalty), 0, 1e6, NULL, "X",
     "divides the logits of recent tokens; 1: off"},
    {0, "repeat-last", INTEGER, GROUP_SAMPLING, ANY, AT(sampler.repeat_last), 0, INT_MAX, NULL, "N",
     "tokens that the penalties look back on, default 64"},
    {0, "frequency-penalty", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.frequency_penalty), -1e6, 1e6, NULL, "X",
     "taken from a recent token's logit as often as it came; 0: off"},
    {0, "presence-penalty", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.presence_penalty), -1e6, 1e6, NULL, "X",
     "taken from a recent token's logit once; 0: off"},
    {0, "typical", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.typical), 0, 1, NULL, "X",
     "locally typical tokens that hold this probability; 1: off"},
    {0, "dynatemp-range", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.dynatemp_range), 0, 1e6, NULL, "X",
     "temperature between -t minus and plus this, by the entropy; 0: off"},
    {0, "dynatemp-exp", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.dynatemp_exponent), 0, 1e6, NULL, "X",
     "to this power, default 1"},
    {0, "mirostat", INTEGER, GROUP_SAMPLING, ANY, AT(sampler.mirostat), 0, 2, NULL, "N",
     "2: Mirostat 2 in place of top-k, top-p and the others; 0: off"},
    {0, "mirostat-ent", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.mirostat_tau), 0, 1e6, NULL, "X",
     "surprise it aims at, in bits, default 5"},
    {0, "mirostat-lr", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.mirostat_eta), 0, 1e6, NULL, "X",
     "how fast it learns, default 0.1"},
    {0, "xtc-probability", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.xtc_probability), 0, 1, NULL, "X",
     "how often the top choices are excluded (XTC); 0: off"},
    {0, "xtc-threshold", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.xtc_threshold), 0, 1, NULL, "X",
     "those above this probability, but for the least of them, default 0.1"},
    {0, "dry-multiplier", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.dry_multiplier), 0, 1e6, NULL, "X",
     "penalty of a token that goes on with a repetition (DRY); 0: off"},
    {0, "dry-base", NUMBER, GROUP_SAMPLING, ANY, AT(sampler.dry_base), 0, 1e6, NULL, "X",
     "times this for each token of its length, default 1.75"},
    {0, "dry-allowed-length", INTEGER, GROUP_SAMPLING, ANY, AT(sampler.dry_allowed_length), 1, INT_MAX, NULL, "N",
     "beyond this length, default 2"},
    {0, "dry-penalty-last-n", INTEGER, GROUP_SAMPLING, ANY, AT(sampler.dry_last), -1, INT_MAX, NULL, "N",
     "tokens that DRY looks back on, default -1: the context"},
    {0, "dry-sequence-breaker", BREAKER, GROUP_SAMPLING, ANY, 0, 0, 0, NULL, "TEXT",
     "no repetition goes across tokens with this text (repeatable); default newline : \" *; none: no such"},
    {0, "logit-bias", BIAS, GROUP_SAMPLING, ANY, 0, 0, 0, NULL, "ID+X",
     "added to a token's logit, 13+2.5 or 13-1 (repeatable)"},
    {0, "ban", BAN, GROUP_SAMPLING, ANY, 0, 0, 0, NULL, "1,2,3", "tokens that are never chosen"},
    {0, "samplers", STAGES, GROUP_SAMPLING, ANY, 0, 0, 0, NULL, "A;B..",
     "which samplers in which order, default penalties;dry;temperature;top-k;top-p;min-p;typical;xtc"},
    {'s', "seed", SEED, GROUP_SAMPLING, ANY, 0, 0, 0, NULL, "N", "any 64-bit number; without it a fresh one, printed"},

    {'n', "steps", INTEGER, GROUP_OUTPUT, ANY "b", AT(steps), 0, INT_MAX, NULL, "N",
     "new tokens at most, default 256, in chat 0; 0: until the context is full; bench: tokens to decode, default 64"},
    {0, "stop", STOP, GROUP_OUTPUT, ANY, 0, 0, 0, NULL, "TEXT", "end before this text (repeatable)"},
    {0, "json", JSON, GROUP_OUTPUT, NULL, 0, 0, 0, NULL, "",
     "machine-readable result on standard output; --json=lines: generate and chat, one object a token as it comes"},
    {0, "logprobs", INTEGER, GROUP_OUTPUT, ANY, AT(logprobs), 1, 100, NULL, "N",
     "with --json: the N likeliest tokens at each step and their log probabilities"},
    {0, "receipt", TEXT, GROUP_OUTPUT, "g", AT(receipt), 0, 0, NULL, "FILE",
     "write down what the text came of: model, flags, seed, hashes, tokens"},
    {0, "replay", TEXT, GROUP_OUTPUT, "g", AT(replay_file), 0, 0, NULL, "FILE",
     "make a receipt's text again, or say what differs; other flags come on top"},
    {0, "no-echo", FLAG, GROUP_OUTPUT, "g", AT(no_echo), 0, 0, NULL, "", "do not print the prompt"},
    {0, "raw", FLAG, GROUP_OUTPUT, "gct", AT(raw), 0, 0, NULL, "",
     "to a terminal too: text with its control characters as they are"},
    {0, "color", FLAG, GROUP_OUTPUT, TEXTS, AT(color), 0, 0, NULL, "",
     "the prompt in a color of its own, new tokens from red to green by their probability"},

    {'c', "ctx", INTEGER, GROUP_RUN, RUNS "ki", AT(ctx), 0, 1 << 26, NULL, "N",
     "context; 0: the model's; default: the model's, at most 4096 and what memory allows"},
    {0, "session", TEXT, GROUP_RUN, TEXTS, AT(session), 0, 0, NULL, "FILE",
     "the text so far with its keys and values: read at the start when it is there, written at the end"},
    {0, "keep", INTEGER, GROUP_RUN, TEXTS, AT(keep), 0, INT_MAX, NULL, "N",
     "in a full context keep the first N tokens (4 at least; chat: the turns that begin there) and go on"},
    {0, "lookup", INTEGER, GROUP_RUN, TEXTS, AT(lookup), 1, 64, NULL, "N",
     "draft up to N tokens from the text so far and check them in one pass: the same text, sooner where it repeats "
     "itself"},
    {0, "draft", TEXT, GROUP_RUN, TEXTS, AT(draft), 0, 0, NULL, "MODEL",
     "a small model of the same vocabulary drafts tokens, which are checked in one pass"},
    {0, "batch", INTEGER, GROUP_RUN, RUNS "i", AT(batch), 1, 1 << 16, NULL, "N",
     "tokens of one prefill step, default 256"},
    {0, "kv-type", CHOICE, GROUP_RUN, "gclpxbiakn", AT(kv_type), 0, 0, "f32|f16|q8_0", "TYPE",
     "f32, f16 or q8_0 keys and values, default f16 (f32 for logits, probe, trace)"},
    {0, "precise", SWITCH, GROUP_RUN, RUNS, AT(precise), 0, 0, NULL, "",
     "f32 activations with quantized weights too, as in logits, verify, probe and trace; --precise=off: int8 there "
     "too"},
    {0, "deterministic", FLAG, GROUP_RUN, RUNS, AT(deterministic), 0, 0, NULL, "",
     "the same bits for any thread count and split of the prompt"},
    {0, "check", FLAG, GROUP_RUN, "gclpxa", AT(check), 0, 0, NULL, "",
     "stop at the first NaN or infinity and name where it arose"},
    {0, "break", MISTAKE, GROUP_RUN, "gclpxva", 0, 0, 0, NULL, "NAME",
     "make a known mistake, to see what it does; see below"},

    {0, "rope-theta", DOUBLE, GROUP_ROPE, MODELS "r", AT(rope_theta), 1e-30, 1e30, NULL, "X",
     "base of the RoPE frequencies"},
    {0, "rope-scaling", CHOICE, GROUP_ROPE, MODELS "r", AT(rope_scaling), 0, 0, RULES, "RULE",
     "none, linear, dynamic, yarn, llama3, longrope or ntk (static)"},
    {0, "rope-factor", DOUBLE, GROUP_ROPE, MODELS "r", AT(rope_factor), 1e-30, 1e30, NULL, "X",
     "factor of the scaling rule"},
    {0, "rope-original-ctx", INTEGER, GROUP_ROPE, MODELS "r", AT(rope_original_ctx), 1, INT_MAX, NULL, "N",
     "context the model was trained at"},
    {0, "rope-pairing", CHOICE, GROUP_ROPE, MODELS "r", AT(rope_pairing), 0, 0, "half|pairs", "HOW",
     "half (Hugging Face) or pairs (the paper, GGUF llama)"},
    {0, "head-dim", INTEGER, GROUP_ROPE, "r", AT(head_dim), 2, 1 << 14, NULL, "N",
     "rope: features of a head, default 64"},
    {0, "rotary-dim", INTEGER, GROUP_ROPE, "r", AT(rotary_dim), 2, 1 << 14, NULL, "N",
     "rope: features that are rotated, default all"},
    {0, "seq-len", INTEGER, GROUP_ROPE, "r", AT(seq_len), 1, INT_MAX, NULL, "N",
     "rope: length of the sequence (dynamic, longrope)"},
    {0, "rope-short", TEXT, GROUP_ROPE, "r", AT(rope_short), 0, 0, NULL, "a,b..",
     "rope: longrope's divisors up to the original context"},
    {0, "rope-long", TEXT, GROUP_ROPE, "r", AT(rope_long), 0, 0, NULL, "a,b..", "rope: longrope's divisors beyond it"},
    {0, "x", TEXT, GROUP_ROPE, "r", AT(x), 0, 0, NULL, "a,b..", "rope: a head's features to rotate"},
    {0, "q", TEXT, GROUP_ROPE, "r", AT(q), 0, 0, NULL, "a,b..", "rope: a query at --pos, to score against --k"},
    {0, "k", TEXT, GROUP_ROPE, "r", AT(k), 0, 0, NULL, "a,b..", "rope: a key at --pos-k"},
    {0, "pos", INTEGER, GROUP_ROPE, "ra", AT(pos), 0, INT_MAX, NULL, "N",
     "rope: the position of x or q; alone: the matrix of it; trace: default the last"},
    {0, "pos-k", INTEGER, GROUP_ROPE, "r", AT(pos_k), 0, INT_MAX, NULL, "N", "rope: the position of k"},

    {0, "all", FLAG, GROUP_MODE, "l", AT(all), 0, 0, NULL, "", "logits: a row for each position"},
    {0, "special", FLAG, GROUP_MODE, "t", AT(special), 0, 0, NULL, "",
     "tokenize --tokens: special tokens are written out too"},
    {0, "protocol", TEXT, GROUP_MODE, "x", AT(protocol), 0, 0, NULL, "NAME", "perplexity: hf or llamacpp, see below"},
    {0, "stride", INTEGER, GROUP_MODE, "x", AT(stride), 1, INT_MAX, NULL, "N",
     "perplexity hf: default half the window"},
    {0, "score-from", INTEGER, GROUP_MODE, "x", AT(score_from), 1, INT_MAX, NULL, "N",
     "perplexity hf: score only what has N tokens of its window before it"},
    {0, "decode", FLAG, GROUP_MODE, "x", AT(decode), 0, 0, NULL, "",
     "perplexity hf: the scored tokens one at a time, as generation reads them"},
    {'r', "reference", TEXT, GROUP_MODE, "v", AT(reference), 0, 0, NULL, "PATH", "verify: the reference file"},
    {'r', "runs", INTEGER, GROUP_MODE, "b", AT(bench_runs), 1, 1000, NULL, "N", "bench: runs of each test, default 5"},
    {'P', "bench-prompt", INTEGER, GROUP_MODE, "b", AT(bench_prefill), 0, 1 << 20, NULL, "N",
     "bench: prefill of N tokens, default 256; 0: none"},
    {'d', "depth", INTEGER, GROUP_MODE, "b", AT(bench_depth), 0, 1 << 26, NULL, "N",
     "bench: tokens already in the cache, default 0"},
    {0, "compare", TEXT, GROUP_MODE, "b", AT(compare), 0, 0, NULL, "FILE",
     "bench: beside an earlier measurement, the output of --json: what it had, and the ratio"},
    {0, "csv", FLAG, GROUP_MODE, "ba", AT(csv), 0, 0, NULL, "", "bench: comma-separated; trace: the attention matrix"},
    {0, "svg", FLAG, GROUP_MODE, "a", AT(svg), 0, 0, NULL, "", "trace: the attention matrix as a picture"},
    {0, "layer", INTEGER, GROUP_MODE, "a", AT(layer), 0, INT_MAX, NULL, "N", "trace: the layer to look at, default 0"},
    {0, "head", INTEGER, GROUP_MODE, "a", AT(head), 0, INT_MAX, NULL, "N", "trace: its query head, default 0"},
    {0, "pair", INTEGER, GROUP_MODE, "a", AT(pair), 0, INT_MAX, NULL, "N",
     "trace: a pair of the head's features, default 0"},
    {'o', "output", TEXT, GROUP_MODE, "on", AT(output), 0, 0, NULL, "PATH",
     "convert: .gguf, .bin or a directory (a name without ending, or with a slash behind); batch: the "
     "results"},
    {0, "type", TEXT, GROUP_MODE, "o", AT(type), 0, 0, NULL, "TYPE",
     "convert: f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, or a mix: q4_k_m, q6_k, iq4_nl ..."},
    {0, "kv-heads", INTEGER, GROUP_MODE, "o", AT(kv_heads), 1, 1 << 16, NULL, "N",
     "convert: mean-pool K and V to N heads"},
    {0, "parallel", INTEGER, GROUP_MODE, "n", AT(parallel), 1, 256, NULL, "N", "batch: prompts at once, default 8"},
    {.name = NULL},
};

bool flag_takes_value(const Flag *f) { return f->kind != FLAG && f->kind != JSON && f->kind != SWITCH; }

bool flag_used(const Flag *f, const Mode *m) { return !f->modes || strchr(f->modes, m->letter); }

static void print_flags(FILE *out, Group g, const Mode *only) {
    for (const Flag *f = flags; f->name; f++) {
        if (f->group != g || (only && !flag_used(f, only))) continue;
        char brief[4] = "   ";
        if (f->brief) snprintf(brief, sizeof brief, "-%c,", f->brief);
        fprintf(out, "  %s --%-17s %-5s %s\n", brief, f->name, f->value, f->help);
    }
}

static bool any_flag(Group g, const Mode *only) {
    for (const Flag *f = flags; f->name; f++)
        if (f->group == g && (!only || flag_used(f, only))) return true;
    return false;
}

void options_help(FILE *out, const char *program, const Mode *only) {
    static const char *const title[GROUPS] = {"general",         "prompt", "sampling",       "output",
                                              "running a model", "RoPE",   "of single modes"};
    if (only)
        fprintf(out, "usage: %s CHECKPOINT -m %s [options]\n\n%s: %s\n", program, only->name, only->name, only->help);
    else
        fprintf(out,
                "usage: %s CHECKPOINT [options]\n\n"
                "  %s MODEL -i \"Once upon a time\" -n 100      text\n"
                "  %s MODEL -m chat -y \"Be brief.\"            talk\n"
                "  %s MODEL -m convert -o OUT.gguf --type q8_0\n\n"
                "CHECKPOINT: a llama2.c .bin (v0, v1, v2), a .gguf, a .safetensors file with config.json beside it,\n"
                "a Hugging Face directory, or a name that -m models lists.\n\n"
                "modes (-m; --help MODE lists the flags of one):\n",
                program, program, program, program);
    for (const Mode *m = modes; m->name && !only; m++) fprintf(out, "  %-11s %s\n", m->name, m->help);
    for (Group g = 0; g < GROUPS; g++) {
        if (!any_flag(g, only)) continue;
        fprintf(out, "\n%s:\n", title[g]);
        print_flags(out, g, only);
    }
    if (!only || only->letter == 'x')
        fputs("\nperplexity protocols:\n"
              "  hf        the whole text is tokenized once (BOS first where the model has it); windows of the\n"
              "            context begin every --stride tokens; each token is scored once, with as much\n"
              "            before it as its window holds (Hugging Face, 'Perplexity of fixed-length models')\n"
              "  llamacpp  chunks of the context that do not overlap; the first token of each is BOS where the model\n"
              "            has it, the second half is scored; default -c 512 (llama.cpp's llama-perplexity)\n"
              "bits_per_byte is the negative log-likelihood in bits over the bytes of the text that was scored.\n",
              out);
    if (!only || strchr("gclpxva", only->letter)) {
        fputs("\nmistakes (--break), the exercises of docs/ladder.md:\n", out);
        for (int i = 1; i < MISTAKE_COUNT; i++) fprintf(out, "  %-19s %s\n", mistakes[i].name, mistakes[i].help);
    }
    fputs(
        "\nenvironment:\n"
        "  RUN_CPU           kernels to use: ref, blas, avx2, avxvnni, avx512; on ARM neon, neondot; default: the best "
        "that the CPU has\n"
        "  RUN_MODELS        directories, with colons between, whose models can be given by name (-m models lists "
        "them)\n"
        "  HF_HOME           holds the cache of Hugging Face's hub (or HF_HUB_CACHE is it); its models have names too\n"
        "  NO_COLOR          when set and not empty, --color is off\n"
        "OMP_NUM_THREADS is not used, -j is.\n"
        "\nExit: 0 done, 1 failed, 2 usage, 130 interrupted.\n",
        out);
}
