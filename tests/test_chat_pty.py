"""test_chat_pty.py - a whole conversation on a pseudo-terminal: UTF-8 typed and edited, pastes, Ctrl-C, commands, a full
context, the end of the input. Prints "ok NAME" or "not ok NAME: why"."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

from lib import check, failures

RUN = os.environ.get("RUN", "./run")
MODEL = ["weights/shakespeare.gguf", "-m", "chat", "--chat-template", "chatml", "-t", "0"]


class Terminal:
    """The program on a pseudo-terminal; `seen` is all it has written."""

    def __init__(self, *options, history=""):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            env = {**os.environ, "TERM": "xterm", "LANG": "C.UTF-8", "RUN_HISTORY": history}
            env.pop("LC_ALL", None)
            os.execvpe(RUN, [RUN, *MODEL, *options], env)
        self.expect(b"> ")

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            self.seen += data
            return bool(data)
        return None

    def expect(self, what, seconds=60):
        """Waits until `what` is written behind what was expected last; returns the text up to it."""
        begin, end = getattr(self, "at", 0), time.time() + seconds
        while time.time() < end:
            found = self.seen.find(what, begin)
            if found >= 0:
                self.at = found + len(what)
                return self.seen[begin:self.at]
            if self.read(0.2) is False:
                break
        raise AssertionError(f"expected {what!r}, found {self.seen[begin:][-400:]!r}")

    def type(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        time.sleep(0.1)  # the terminal is set up for editing just after the prompt
        while data:
            data = data[os.write(self.fd, data[:256]):]

    def say(self, text):
        """A line and Enter; returns what is written up to the next prompt."""
        self.type(text if isinstance(text, bytes) else text.encode())
        self.type(b"\r")
        return self.expect(b"\x1b[?2004h") + self.expect(b"> ")

    def end(self):
        self.type(b"\x04")
        deadline = time.time() + 20
        while time.time() < deadline:
            self.read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None


def prefills(data):
    return [int(x) for x in re.findall(rb"prefill: (\d+) tokens", data)]


def piped(text, *options):
    return subprocess.run([RUN, *MODEL, *options], input=text.encode(), capture_output=True)


def same_as_piped(name, keys, message):
    t = Terminal("-n", "1")
    wanted, found = prefills(piped(message + "\n", "-n", "1").stderr), prefills(t.say(keys))
    check(name, found == wanted, f"prompts of {found} tokens, expected {wanted}")
    t.end()


def conversation(directory):
    saved, history = os.path.join(directory, "saved"), os.path.join(directory, "state", "history")
    same_as_piped("typed UTF-8", "Grüße 世界 Привет 😀", "Grüße 世界 Привет 😀")
    same_as_piped("edited UTF-8", "Grüße 世x\x7f界\x1b[D\x1b[D\x1b[D\x01Ja, \x05!", "Ja, Grüße 世界!")
    t = Terminal("-n", "4", history=history)
    paste = b"\x1b[200~one\r\ntwo\rthree\x1b[201~"
    out = t.say(paste)
    check("a paste of three lines is one message", len(prefills(out)) == 1, out)
    t.say("/undo")
    check("a paste is not sent by its line ends", b"3 messages" not in t.say("/context"))
    out = t.say("one \\\rtwo")
    check("a line that ends in a backslash goes on", len(prefills(out)) == 1, out)
    t.say("/clear")
    out = t.say('"""one\rtwo\r\rthree"""')
    check("three quotes hold several lines", len(prefills(out)) == 1, out)
    out = t.say("/context")
    check("/context", re.search(rb"context: \d+ of \d+ tokens, 2 messages", out), out)
    check("an answer that is cut says why", b"cut: 4 tokens" in t.say("Again"))
    out = t.say("/regen")
    check("/regen", prefills(out) == [1] and b"cut: 4 tokens" in out, out)
    out = t.say("/top 4")
    rows = [x.split() for x in out.split(b"\n") if b"%" in x]
    check("/top", len(rows) == 4 and b"chosen" in rows[0] and all(x[-3:] == [b"removed", b"by", b"temperature"] for x in rows[1:]), out)
    check("/top refuses", b"expected a number from 1 to 100" in t.say("/top 0"))
    check("/undo", b"dropped" in t.say("/undo") and b"2 messages" in t.say("/context"))
    check("/save", b"saved: 2 messages" in t.say("/save " + saved))
    t.say("/clear")
    check("/load", b"loaded: 2 messages" in t.say("/load " + saved) and b"2 messages" in t.say("/context"))
    check("/load refuses what is none", b"expected a session file" in t.say("/load README.md"))
    check("/system", b"set" in t.say("/system Be brief.") and b"Be brief." in t.say("/system"))
    check("/set", b"7" in t.say("/set steps 7") and b"cut: 7 tokens" in t.say("Go on"))
    check("/set refuses", b"expected a number" in t.say("/set top-p 3") and b"expected a name" in t.say("/set nonsense 3"))
    check("an unknown command is not sent", b"expected a command" in t.say("/nope"))
    check("/help", b"/regen" in t.say("/help"))
    check("// sends a slash", len(prefills(t.say("//etc"))) == 1)
    check("/stats off", b"prefill" not in t.say("/stats off") + t.say("Hello"))
    t.type(b"half a line\x03")
    t.expect(b"^C")
    t.expect(b"> ")
    check("Ctrl-C at the prompt drops the line", b"cut: 7 tokens" in t.say("whole"))
    check("the end of the input ends the chat", t.end() == 0, t.seen)
    check("no reason of an answer at the end of a terminal", b"stop:" not in t.seen)

    t = Terminal("-n", "1", history=history)
    out = t.say(b"\x1b[A")  # up: the last line of the chat before
    check("history is kept between starts", b"whole" in out and len(prefills(out)) == 1, out)
    check("/bye", t.type("/bye\r") is None and t.end() == 0)


def interrupted():
    t = Terminal("-c", "30000", "-n", "0")
    t.type("Speak\r")
    t.expect(b"\x1b[?2004l")
    t.expect(b"\n")
    while t.read(5) and len(t.seen) < getattr(t, "at", 0) + 20:
        pass
    t.type(b"\x03")
    t.expect(b"cut: Ctrl-C")
    t.expect(b"> ")
    check("Ctrl-C ends the answer, not the chat", b"2 messages" in t.say("/context"))
    t.say("/set steps 3")
    check("and the chat goes on", b"cut: 3 tokens" in t.say("And now?"))
    check("its end is a good one", t.end() == 0)


def colored():
    plain, t = Terminal("-n", "8"), Terminal("-n", "8", "--color")
    wanted, found = plain.say("Speak"), t.say("Speak")
    answer = re.search(rb"\x1b\[\?2004l\r?\n?(.*?)\r\ncut:", wanted, re.S).group(1)
    check("--color on a terminal: shades", len(re.findall(rb"\x1b\[38;5;\d+m", found)) > 1, found)
    check("and the same answer", answer in re.sub(rb"\x1b\[(38;5;\d+|0)m", b"", found), (answer, found))
    check("its end", plain.end() == 0 and t.end() == 0)


def full():
    t = Terminal("-c", "160", "-n", "20", "-y", "Be brief.")
    out = b"".join(t.say(f"Question number {i}?") for i in range(20))
    check("every message is answered in a full context", out.count(b"cut: 20 tokens") == 20, out)
    check("what is forgotten is said", out.count(b"oldest messages are forgotten") > 3, out)
    check("keys are moved, not computed anew", max(prefills(out)[8:]) < 60, prefills(out))
    check("the system prompt stays", b"Be brief." in t.say("/system"))
    check("a message longer than the context is said, and the chat goes on",
          b"expected at most the context's 160 tokens" in t.say("long " * 300) and b"cut: 20 tokens" in t.say("short"))
    before = t.say("/context")
    t.say("long " * 300)
    check("and no turn is dropped for it", re.search(rb"\d+ messages", before).group() in t.say("/context"), before)
    t.end()
    with tempfile.TemporaryDirectory() as directory:
        for keep in (0, 40):
            saved = os.path.join(directory, f"session{keep}")
            piped("".join(f"Question number {i}?\n" for i in range(12)), "-c", "160", "-n", "5", "--keep", str(keep), "--session", saved)
            check(f"--keep {keep}: the first turn", (b"number 0?" in open(saved, "rb").read()) == (keep > 0))
    out = piped("".join(f"Question number {i}?\n" for i in range(300)), "-c", "160", "-n", "5")
    check("300 turns by a pipe", out.returncode == 0 and out.stderr.count(b"cut: 5 tokens") == 300, out.stderr[-300:])
    # an answer that runs into the end of the context goes on when there are older turns to drop
    out = piped("Hello\nHello again, please, and speak\n", "-c", "200", "-n", "150")
    check("the context is full in the middle of an answer",
          out.returncode == 0 and out.stderr.count(b"cut: 150 tokens") == 2 and b"forgotten" in out.stderr, out.stderr)
    out = piped("Hello\n" + "word " * 400 + "\nHello\n", "-c", "160", "-n", "5")
    check("a piped message that does not fit is a failure", out.returncode == 1 and b"expected at most the context's" in out.stderr, out.stderr)


def strangers():
    """What a session, or a line that was pasted, holds does not speak to the terminal."""
    hostile = "Be \x1b]0;owned\x07\u202e\x9b31m brief"
    with tempfile.TemporaryDirectory() as tmp:
        session = os.path.join(tmp, "session")
        subprocess.run([RUN, *MODEL, "-n", "1", "-y", hostile, "-i", "A", "--session", session, "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)
        t = Terminal("-n", "1", "--session", session)
        shown = t.say("/system")
        check("a session's system prompt", b"Be " in shown and not re.search(rb"\x1b\]0|\x07|\xe2\x80\xae|\xc2\x9b", shown), shown)
        shown = t.say("/no\u202esuch\u009b")
        check("a command that is none", b"\\u{202e}such: expected" in shown, shown)
        t.end()


def text_in():
    wanted = prefills(piped("one\ntwo\n", "-n", "2").stderr)
    for name, text in (("CRLF", "one\r\ntwo\r\n"), ("lone CR", "one\rtwo\r"), ("byte order mark", "\ufeffone\ntwo\n"), ("no last line end", "one\ntwo")):
        found = prefills(piped(text, "-n", "2").stderr)
        check(f"piped lines: {name}", found == wanted and len(found) == 2, f"{found}, expected {wanted}")
    more = prefills(piped("one\0\0\ntwo\n", "-n", "2").stderr)
    check("piped lines: NUL bytes are text", len(more) == 2 and more[0] > wanted[0], more)
    for encoding, name in (("utf-16", "UTF-16"), ("utf-16-be", "UTF-16"), ("utf-32", "UTF-32")):
        out = subprocess.run([RUN, *MODEL], input="Hello there\n".encode(encoding), capture_output=True)
        check(f"piped {encoding} is named", out.returncode == 1 and name.encode() in out.stderr, out.stderr)
    out = subprocess.run([RUN, *MODEL, "-n", "3", "-i", "Hi"], input=b"more\n", capture_output=True)
    check("one question, one answer", out.returncode == 0 and out.stderr.count(b"prefill:") == 1, out.stderr)


def main():
    with tempfile.TemporaryDirectory() as directory:
        for part in (lambda: conversation(directory), interrupted, colored, full, strangers, text_in):
            try:
                part()
            except AssertionError as x:
                check("a conversation", False, x)
    return len(failures) > 0


sys.exit(main())
