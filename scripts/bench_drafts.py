#!/usr/bin/env python3
"""bench_drafts.py - what drafts gain: tokens a second of decode with and without them, in turn.

    bench_drafts.py MODEL [--flags "--lookup 16"] [--runs 7] [--tokens 200]

Greedy texts of -m chat, with --deterministic the same ones with and without: two that repeat what the prompt says, and
free ones. Each row: the medians of tokens a second without and with the flags, the median of the ratios of neighbouring
runs, and tokens a pass.
"""
import argparse
import json
import pathlib
import statistics
import subprocess

RUN = pathlib.Path(__file__).resolve().parent.parent / "run"
STORY = """The old lighthouse stood at the end of the pier, where the waves had worn the stones smooth over two hundred years. \
Every evening the keeper climbed the ninety-six steps to the lamp room, trimmed the wick, and wrote the weather into a heavy \
book bound in green cloth. On the morning of the third of March the book was gone. Nobody in the village had seen a stranger, \
and the door had been locked from inside. The keeper searched the stairs, the store room and the boat, but he found nothing \
except a wet glove that was much too small for his hand. He told the harbour master, who told the priest, who told everybody \
else, and by noon the whole village stood on the pier and looked at the door."""
CODE = """def mean(numbers):
    total = 0
    for number in numbers:
        total = total + number
    return total / len(numbers)

def variance(numbers):
    center = mean(numbers)
    total = 0
    for number in numbers:
        total = total + (number - center) ** 2
    return total / len(numbers)
"""
PROMPTS = [
    ("a text again", "Repeat the following text word for word.\n\n" + STORY),
    ("code again", "Write this program again and add a comment to each function.\n\n" + CODE),
    ("free: a story", "Write a story about a fox who wants to cross a river."),
    ("free: an explanation", "Explain how a refrigerator works."),
    ("free: a letter", "Write a letter to the mayor about the noise of the new harbour."),
]


def run(model, prompt, flags, n):
    """The object of --json for one answer."""
    command = [str(RUN), model, "-m", "chat", "-i", prompt, "-t", "0", "-n", str(n), "--json", "--quiet", "--deterministic", *flags]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--flags", default="--lookup 16")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=200)
    args = parser.parse_args()
    flags = args.flags.split()
    print(f"| text | tokens | without | {args.flags} | ratio | tokens a pass |\n|---|---:|---:|---:|---:|---:|")
    for name, prompt in PROMPTS:
        without, drafted = [], []
        for _ in range(args.runs):
            one, two = run(args.model, prompt, [], args.tokens), run(args.model, prompt, flags, args.tokens)
            without.append(one["decode"]["tok_s"])
            drafted.append(two["decode"]["tok_s"])
        ratio = statistics.median(b / a for a, b in zip(without, drafted))
        print(f"| {name} | {two['decode']['tokens']} | {statistics.median(without):.1f} | {statistics.median(drafted):.1f} | "
              f"{ratio:.2f} | {two['drafts']['tokens_a_pass']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
