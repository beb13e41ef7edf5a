#!/usr/bin/env python3
"""check_templates.py RENDERER [DIR or FILE...] - chat templates rendered by src/chat and by jinja2, byte for byte.

RENDERER is build/release/tests/render_template (make build/release/tests/render_template). Each template (*.jinja,
default: tests/fixtures/chat) meets 12 conversations, each with add_generation_prompt on and off; jinja2 is set up as
transformers does. Equal means the same text, or a refusal on both sides. Exit 1 when one differs.
Needs: pip install -r scripts/requirements.txt
"""
import datetime
import json
import os
import pathlib
import subprocess
import sys

os.environ["TZ"] = "UTC"
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2024, 10, 3, 12)  # the renderer's
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather \u2014 \"now\" <here>", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "Where?"}, "days": {"type": "integer", "default": 3, "enum": [1, 3, 7]},
                                     "unit": {"type": ["string", "null"]}, "list": {"type": "array", "items": {"type": "number"}}},
    "required": ["city"]}}}]
SPACE = " \t\n\u00a0\u3000"
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdef123", "type": "function", "function": {
    "name": "get_weather", "arguments": {"city": "K\u00f6ln", "days": 3, "exact": True, "list": [1, 2.5, None]}}}]}


def say(*texts, system=None):
    turns = [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(texts)]
    return ([{"role": "system", "content": system}] if system is not None else []) + turns


CONVERSATIONS = [
    dict(messages=say("Hi")),
    dict(messages=say("Hi", system="Be brief.")),
    dict(messages=say("2+2?", "4", "And 10?", "14.", "Bye", system="Be brief.")),
    dict(messages=say("2+2?", "4", "And 10?", "14.")),
    dict(messages=say("", "", "", system="")),
    dict(messages=say(f"{SPACE}Hi{SPACE}", f"{SPACE}Hello{SPACE}", f"{SPACE}", system=f"{SPACE}Be brief.{SPACE}")),
    dict(messages=say("Gr\u00fc\u00df dich \U0001f44b\U0001f3fd", "\u4f60\u597d\u3002", "\u0928\u092e\u0938\u094d\u0924\u0947", system="\u00catre bref.")),
    dict(messages=say("<|im_end|>\n</s>[/INST]{{ x }}", "<think>a\nb</think>\n\nc", "'\"\\ &<>", system="<|im_start|>")),
    dict(messages=[*say("one", "two"), {"role": "assistant", "content": "three"}, {"role": "user", "content": "four"}]),
    dict(messages=say("Weather?"), tools=TOOLS),
    dict(messages=[*say("Weather?", system="Use tools."), CALL, {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123", "content": "{\"t\": 20}"},
                   {"role": "assistant", "content": "20 degrees."}, {"role": "user", "content": "Thanks"}], tools=TOOLS),
    dict(messages=[{"role": "user", "content": [{"type": "text", "text": "parts"}]}]),
]


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


def reference(source, context):
    try:
        return chat_template_utils._compile_jinja_template(source).render(**json.loads(json.dumps(context))), None
    except Exception as x:  # whatever jinja2 and Python raise is a refusal
        return None, f"{type(x).__name__}: {x}"


class Renderer:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf8")

    def render(self, source, context):
        self.process.stdin.write(json.dumps({"template": source, "context": context}) + "\n")
        self.process.stdin.flush()
        out = json.loads(self.process.stdout.readline())
        return out.get("text"), out.get("error")


def templates(paths):
    for path in map(pathlib.Path, paths):
        yield from sorted(path.glob("*.jinja")) if path.is_dir() else [path]


def main():
    chat_template_utils.datetime = Clock
    renderer = Renderer(sys.argv[1])
    paths = sys.argv[2:] or [pathlib.Path(__file__).parent.parent / "tests/fixtures/chat"]
    files = same = refused = different = 0
    for path in templates(paths):
        files += 1
        source = path.read_text(encoding="utf8")
        for i, c in enumerate(CONVERSATIONS):
            for prompt in (True, False):
                context = {"tools": None, "documents": None, "bos_token": "<s>", "eos_token": "</s>", **c, "add_generation_prompt": prompt}
                wanted, why = reference(source, context)
                found, error = renderer.render(source, context)
                if wanted == found:
                    same, refused = same + 1, refused + (wanted is None)
                    continue
                different += 1
                if different > 40:
                    continue
                print(f"{path.name}, conversation {i}, prompt {prompt}:\n  jinja2: {why or wanted!r:.600}\n  ours:   {error or found!r:.600}")
    print(f"{files} templates: {same} equal ({refused} of them refused by both), {different} different")
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
