"""jinja_snippets - small templates for make_chat_fixtures.py: each shows one thing that src/chat must do as jinja2 does."""

CONTEXT = {
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "n": 2}, {"role": "user", "content": "B\u00fccher \U0001f44b"}],
    "s": "Hello, World", "u": "Gr\u00fc\u00dfe \u4e16\u754c \U0001f44b!", "empty": "", "n": 7, "f": 2.5, "big": 123456789012, "yes": True, "no": False, "nothing": None,
    "l": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "d": {"b": 1, "a": [1, {"x": None}], "C": "z"},
    "people": [{"name": "Bo", "age": 30, "at": {"city": "Ulm"}}, {"name": "al", "age": 25, "at": {"city": "Bonn"}}, {"name": "Cy", "age": 30}],
    "lines": "one\n\ntwo\r\nthree\n", "html": "<a href='x'>&\"</a>",
}

EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 + 7 % 4
-7 // 2, -7 % 3, 7 // -2, 7 % -3, 7.5 // 2, -7.5 % 2, 7 / 2, 6 / 2
2 ** 10, 2 ** -1, 2 ** 3 ** 2, -2 ** 2
1e3, 1.0, 1e16, 123456789.123, 1e-5, 0.1 + 0.2, 1e22, 1.5e300, 100000.0, 0.0001, 1_000, 0x1f, 0b101, 0o17
1 / 3, 2.50, 10 / 4, 1e15, 12345678901234567.0
"a" ~ 1 ~ none ~ true ~ 1.5 ~ [1, "x"]
"a" "b" 'c'
"\n\t\\\'\"\x41\u00e9\U0001F600\101\q" | tojson
"a" * 3, [1] * 2, 2 * "ab", (1,) * 2, "a" * -1
[1, 2] + [3], (1,) + (2, 3), "a" + "b"
1 + "a"
"a" + 1
none + 1
1 if yes, 2 if no, (1 if no else 2 if no else 3)
not yes or no and yes, not (yes and no), yes and "x", no or "", empty or none or 0
1 < 2 < 3, 1 < 2 > 3, "a" < "b", [1, 2] < [1, 3], 1 == 1.0 == true, "a" != "b", 2 in l, 9 not in l, "ell" in s, "a" in d, "zz" in d
1 < "a"
none < 1
l[0], l[-1], l[5], l["x"], d.a[1].x, d["b"], d.b, d["zz"], s[0], s[-1], u[4], u[-2], "abc"[1:], l[1:], l[::-1], s[::2], s[-5:-1], u[::-1], u[2:8:3], (1, 2, 3)[:2], l[10:], l[-10:2], s[5:2]
missing, missing.x is defined
missing.x
missing["x"]
d.zz.yy
nothing.x, nothing["x"] is undefined
missing + 1
missing()
s()
missing | default("x"), empty | default("x"), empty | default("x", true), nothing | d("y"), nothing | d("y", boolean=true), missing | length, missing | list, missing | join
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), u.upper(), u.lower(), "ÄÖß".lower(), "ß".upper(), "it's a dog's".title()
s.split(","), s.split(), " a  b ".split(), " a  b c ".split(none, 1), "a,b,c".split(",", 1), "a,b,c".rsplit(",", 1), " a b  c ".rsplit(none, 1), "".split(), "".split(","), "abc".split("")
s.replace("l", "L"), s.replace("l", "L", 1), "abc".replace("", "-"), "üb".replace("", "."), s.replace("zz", "y"), s | replace("l", "L", 2)
"  x ".strip() ~ "|" ~ "  x ".lstrip() ~ "|" ~ "  x ".rstrip() ~ "|", "xxaxx".strip("x"), "abcba".lstrip("ab"), "äxä".strip("ä"), "\u3000x\u00a0\x1c".strip()
s.startswith("Hell"), s.startswith(("a", "H")), s.endswith("ld"), s.startswith("W", 7), s.endswith("o", 0, 5), "".startswith("")
s.find("o"), s.find("zz"), s.rfind("o"), s.count("l"), u.find("世"), u.count(""), s.index("W"), s.find("o", 5), s.find("o", -3)
s.index("zz")
"a-b-c".partition("-"), "a-b-c".rpartition("-"), "abc".partition("-"), "abc".rpartition("-")
"-".join(words), ", ".join("abc"), "x".join([])
",".join([1, 2])
"7".zfill(3), "-7".zfill(4), "a".center(5, "*"), "ab".center(5) ~ "|", "a".ljust(3, ".") ~ "|", "a".rjust(3) ~ "|", "a" | center(4) ~ "|"
"abc".isalpha(), "ab1".isalnum(), "12".isdigit(), "\u00b2".isdigit(), "\u00b2".isdecimal(), "\u00bd".isnumeric(), " \n".isspace(), "".isspace(), "aB".islower(), "ab".islower(), "AB1".isupper(), "Ab Cd".istitle(), "ABc".istitle()
"foobar".removeprefix("foo"), "foobar".removesuffix("bar"), "foobar".removeprefix("x"), lines.splitlines(), lines.splitlines(true), "a\x0bb\x1cc\u2028d".splitlines()
"{} and {}".format(1, "x"), "{0}{1}{0}".format("a", "b"), "{name!r:>6}|".format(name="x"), "{:05.2f}|{:>8}|{:<4}|{:^5}|{:+d}|{:x}|{:,}".format(3.14159, "r", "l", "c", 5, 255, 1234567), "{{}}", "{a[b]} {a.C}".format(a=d), "{:.3}".format("abcdef"), "{:%}".format(0.5), "{:e}".format(12345.678), "{:08b}".format(5), "{:#x}".format(255)
"{} {}".format(1)
"%s is %d and %.2f, %5s|%-5s|%05d|%x|%r|%%" % ("a", 3, 2.5, "r", "l", 42, 255, "q"), "%s" % "x", "%s" % [1], "%(b)s %(C)r" % d, "%i" % 3.9, "%+d % d" % (3, 4), "%e" % 12345.678, "%g %g" % (0.0001, 1e10), "%c" % "x"
"%s %s" % ("a",)
"%d" % "x"
"%s and %s" | format("a", 2), "%(x)s" | format(x=1)
l | sort, l | sort(reverse=true), words | sort, words | sort(case_sensitive=true), people | sort(attribute="age") | map(attribute="name") | list, people | sort(attribute="age,name") | map(attribute="name") | list, people | sort(attribute="age", reverse=true) | map(attribute="name") | list
[1, "a"] | sort
l | sum, people | sum(attribute="age"), l | min, l | max, words | min, words | max(case_sensitive=true), people | max(attribute="age"), [] | min is undefined, [] | sum, [[1], [2]] | sum(start=[])
l | first, l | last, [] | first is undefined, s | first, s | last, l | length, d | length, s | count, u | length, range(5) | length
l | join, l | join(", "), people | join("+", attribute="name"), u | join("."), d | join
l | reverse | list, s | reverse, u | reverse, d | reverse | list, range(3) | reverse | list
words | unique | list, words | unique(case_sensitive=true) | list, people | unique(attribute="age") | map(attribute="name") | list
l | batch(2) | list, l | batch(2, 0) | list, range(7) | slice(3) | list, range(7) | slice(3, "x") | list
people | selectattr("age", "equalto", 30) | map(attribute="name") | list, people | selectattr("at") | list | length, people | rejectattr("at") | map(attribute="name") | list, people | selectattr("at.city", "eq", "Ulm") | list | length, l | select("odd") | list, l | reject("odd") | list, [0, 1, "", "a"] | select | list, [0, 1, none] | reject | list, l | select(">", 1) | list
people | map(attribute="at.city", default="?") | list, words | map("upper") | list, l | map("string") | join, [[1, 2], [3]] | map("first") | list, words | map("replace", "p", "P") | list, [[1, 2]] | map(attribute=1) | list, [{"a": [5]}] | map(attribute="a.0") | list
people | groupby("age") | list, people | groupby("at.city", default="") | map("first") | list
d | dictsort, d | dictsort(true), d | dictsort(by="value", reverse=true) | length
{"b": 2, "a": 1} | dictsort(false, "value"), d | items | list, d.items() | list, d.keys() | list, d.values() | list, d.items(), d.keys(), d.get("b"), d.get("q"), d.get("q", 5), d | list, missing | items | list
nothing | items | list
s | upper, s | lower, s | title, "it's a dog-house (x)" | title, "hELLO" | capitalize, s | trim, "xxaxx" | trim("x"), n | string + "!", 3.7 | int, "12" | int, "x" | int, "x" | int(5), "0x1f" | int(0, 16), "12.7" | int, "1_000" | int, none | int(3), [1] | int, true | int, " 42 " | int, "1e3" | int, "3.5" | float, "x" | float, "x" | float(1.5), 3 | float
3.14159 | round(2), 2.5 | round, 3.5 | round, 7 | round, 2.675 | round(2), 2.4 | round(method="ceil"), 2.6 | round(0, "floor"), 1234 | round(-2), 1.25 | round(1, "ceil"), -2.5 | round
-5 | abs, (-5) | abs, -2.5 | abs, 3 | abs
1000 | filesizeformat, 1 | filesizeformat, 999 | filesizeformat, 1500000 | filesizeformat, 1048576 | filesizeformat(true), 1e30 | filesizeformat
"a\nb\n\nc" | indent, "a\nb" | indent(2, true), "a\n\nb" | indent(2, blank=true), "a\nb" | indent("> "), "a\nb" | indent(width=1, first=true), "" | indent(2, true), "a\n" | indent
"The quick brown fox jumps" | truncate(10), "The quick brown fox jumps" | truncate(10, true), "The quick" | truncate(7, true, "!", 0), "foo bar baz qux" | truncate(9), "abc" | truncate(3, leeway=0), "foo bar baz" | truncate(9, false, "", 0)
u | wordcount, "a b,c" | wordcount, "a b&/\u00fc?" | urlencode
html | e, html | escape, html | forceescape, html | safe, (html | safe) + "<b>", "<b>" + (html | safe), html | safe | e, "<" ~ (html | safe), (html | e) ~ "<", [html | safe], (html | safe).upper(), (html | safe) | replace("a", "<"), html | e | length, html | safe is escaped, html is escaped, "<" | e | forceescape
d | tojson, l | tojson, u | tojson, html | tojson, nothing | tojson, 1.5 | tojson, 1e20 | tojson, "a\u0001\u007f\u2028\"\\/\n" | tojson, (1, 2) | tojson, {1: 2, none: 3, true: 4, 1.5: 5} | tojson, {} | tojson, [] | tojson, {"a": {}} | tojson(indent=2), d | tojson(indent=2), d | tojson(indent=0), [1, [2]] | tojson(indent=4), d | tojson(separators=(",", ":")), {"b": 1, "a": 2} | tojson(sort_keys=true), u | tojson(ensure_ascii=true), d | tojson(2), d | tojson(true, 1), [1] | tojson(indent="--")
missing | tojson
range(3) | tojson
{(1, 2): 3} | tojson
[1, "a'b", 'a"b', "a'b\"c", none, true, 1.0, {"x": (1,)}, "\u00e9\n\t\u200b\x00\U0001f600\xad"], (1, 2), (), {}, [], {"a": 1}
range(3), range(1, 10, 3), range(5, 0, -2) | list, range(0), range(3)[1], range(10)[2:5], 3 in range(5), range(3) == range(0, 3)
range(1000000)
n is odd, n is even, n is divisibleby(7), n is divisibleby 3, missing is defined, missing is undefined, nothing is none, yes is boolean, yes is true, no is false, 1 is true, n is integer, f is float, n is number, yes is number, yes is integer, s is string, d is mapping, l is sequence, d is sequence, s is sequence, l is iterable, n is iterable, missing is iterable, missing is sequence, range is callable, s is callable, "ab" is lower, "AB" is upper, n is sameas 7, l is sameas l, [] is sameas [], 2 is in l, 2 is in(l), n is eq 7, n is ne 7, n is gt 5, n is ge 7, n is lt 5, n is le 7, n is equalto 7, "upper" is filter, "nope" is filter, "odd" is test, n is not none, d.items() is sequence, d.items() is iterable, d.items() is mapping, namespace() is mapping
n is odd is even
x is nope
s | nope
1 if yes else (s | nope)
(s | nope) if no else 1
s | upper(1)
s | replace("a")
l | join(", ", "x", 3)
s.nope, s.nope()
s.__class__, s.__class__.__mro__
d.__init__
d["__class__"] is defined
l.append(1)
l.append is defined, d.update is defined
d.pop("a")
d.copy() == d, l.copy(), l.index(1), l.count(1), (1, 1).count(1)
l.index(9)
dict(a=1, b=2), dict({"x": 1}, y=2), dict([("a", 1)]), dict(), namespace(a=1).a, namespace({"x": 2}).x
namespace(_a=1)
{"a": 1, "a": 2}, {1: "x", 1.0: "y", true: "z"}, {"a": 1} == {"a": 1.0}
{[1]: 2}
d == {"C": "z", "b": 1, "a": [1, {"x": none}]}, l == [3, 1, 2], (1, 2) == [1, 2], missing == nope, missing == none, none == false, "" == false
loop, self.x
strftime_now("%Y-%m-%d %H:%M:%S %d %b %A %j %% %f%z|%B")
raise_exception("stop: " ~ n)
raise_exception()
lipsum is defined, cycler is defined, joiner is defined
l | attr("append") is defined, d | attr("b") is defined, s | attr("upper") is defined, d | attr("items") is defined
(l | map("string")) is sequence, (l | select("odd")) | length
[l | select("odd")] | length, (l | select("odd")) and "true", ([] | select) and "true"
foo(
[1, 2
"abc
1 +
a b
{{ 1 }}
1 = 2
.5
5.
if
l[1, 2]
l[1:2, 3]
l[]
l[::0]
s[1.5], l[none], l[true], d[1] is defined, l["0"] is defined
*l
s.split(*["l", 1]), dict(**{"a": 1}), s.replace(*["l"], **{}), "{a}{b}".format(a=1, **{"b": 2})
s.upper(x=1)
1 // 0
1 / 0
1.0 % 0
9223372036854775807 + 0, -9223372036854775807
"%s" % (), 1
"x" is string and "y" in "xyz" or no, not "a" in "b", 1 + 1 == 2 and 3 > 2
yes == true, [true, false] | tojson, True, False, None, true ~ none
- - 3, +3, -f, +f, -yes, not not yes
"a" if missing else "b", ("a" if missing) is defined
(1,), (1), (1, 2,), [1, 2,], {"a": 1,}
u | upper | lower | title | length, u | first, u | last, u[1:3] ~ u[-1], u.split(" ") | last
"é" < "z", "Z" < "a", ["b", "a", "C"] | sort, ["b", "a", "C"] | max
"a\\nb", 'it''s'
messages[0]["role"], messages[-1].content, messages | length, messages[1:] | length, messages | selectattr("role", "eq", "user") | list | length, messages[0].content[0], (messages | last).content, messages[1].n is defined, messages[0].n is defined
(messages | map(attribute="content") | join("|")) | upper, messages[::2] | map(attribute="role") | list, messages | groupby("role") | map(attribute="grouper") | list
"\u00e9\u0301" | length, "\u0130" | lower | length, "\ufb01" | upper, "\u01c5".title(), "\u1e9e" | lower, "A\u0308" | lower
("a" | string) is string, 1 | string is string, none | string, [1] | string | length
"a b c" | replace(" ", "") | upper ~ "!" | lower, ("x" ~ "y") | upper, "x" ~ "y" | upper, -1 | abs, 2 ** 2 | string
1 is number and 2, (1, 2) | sum, "ab" | list, {"x": {"y": [10, 20]}}.x.y[1], [[1, 2], [3, 4]][1][0]
"a,b" .split(",") | length, "abc" | list | join("-"), "3" * 3 | int
1 in [1.0, 2], true in [1], none in [none], "" in "abc", "abc" in ["abcd"], missing in [1], [1] in [[1]]
1 in n
1 in "abc"
"x" in missing
l < missing
"a" * 99999999999
"%c" % "ab"
"%x" % 1.5
"%.5d|%8.3d|%+.3d|%-8.3d|%.0d" % (42, 5, 6, 7, 0)
"%-05d|%-08.3d|%#.5x|%+8.3d|%08.3d|%.30d" % (5, 5, 255, -5, 5, 7), "%-05s|%05s" % ("a", "b")
"{:.3d}".format(5)
"{:.3}".format(5)
"{:<05d}|{:.2}|{:.2%}".format(5, 5.0, 1)
"{:é^7}|{:世<4}|{:*>3}".format("x", "y", "z")
"{} {0}".format(1, 2)
"{0} {}".format(1, 2)
"%s" | format("a", x=1)
s | replace("a", "b", old="x")
[1e999, -1e999, 1e999 - 1e999] | tojson
"\é\世\👋\q" | tojson
(l | map("string") | first), ([] | map("string") | first), ([] | map("string") | first) is defined
l | reject("odd") | list, l | reject | list, ["", "a", 0, 1] | reject | list
"STRASSE".casefold(), "Straße".casefold(), s.rindex("o"), s.rindex("o", 0, 6)
s.rindex("zz")
range(1000000)
dict([[1, 2], ["a", "b"]]), dict([(1, 2)], x=3)
dict([1])
dict([[1, 2, 3]])
dict(a=1, **{"a": 2})
2 ** 0.5, 2.5 ** 1.5, 2 ** -2.0, 0.0 ** 2, (-2.0) ** 3, 4 ** 0.5
0.0 ** -1
0 ** -1
0.0 or "a", 0.5 and "b", range(0) or "c", range(2) and "d", {}.items() or "e", d.items() and "f", {}.keys() or "g", d.values() and "h"
s.upper == s.upper, s.upper == s.lower, s.upper == u.upper, range(2) == range(2), range(2) == range(3), d.keys() == d.keys(), d.items() == d.items(), d.values() == d.values(), d.keys() == {"b": 1}.keys(), {"a": 1, "b": 2}.items() == {"b": 2, "a": 1}.items(), {"a": 1}.items() == {"a": 2}.items(), d.keys() == d.items(), namespace == namespace
d.items() | length, d.keys() | length, range(3) | length
namespace(a=1, b="x"), namespace()
5 | list
5 | first
none | length
range(3) | string, d.items() | list | string, d.keys() | string
"""

TEMPLATES = [
    # loops
    "{% for m in messages %}{{ loop.index }}/{{ loop.length }} {{ loop.first }} {{ loop.last }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.index0 }} {{ m.role }}\n{% endfor %}",
    "{% for x in l if x > 1 %}{{ loop.index }}{{ loop.last }}{{ loop.length }}{{ x }};{% else %}none{% endfor %}",
    "{% for x in [] %}{{ x }}{% else %}none{% endfor %}|{% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in l %}{{ loop.previtem | default('-') }}{{ x }}{{ loop.nextitem | default('-') }} {% endfor %}",
    "{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }} {% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for k, v in d | dictsort %}{{ k }}{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for a, b in [(1,)] %}{{ a }}{% endfor %}",
    "{% for x in n %}{{ x }}{% endfor %}",
    "{% for c in u %}{{ c }}.{% endfor %}{% for x in missing %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% else %}never{% endfor %}",
    "{% break %}",
    "{% for x in l recursive %}{{ x }}{{ loop.depth }}{% if loop.index == 1 and loop.depth < 3 %}({{ loop([7, 8]) }}){% endif %}{% endfor %}",
    "{% for x in l %}{{ loop(l) }}{% endfor %}",
    "{% for x in l %}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(x=1, list=[]) %}{% for i in l %}{% set ns.x = ns.x + i %}{% set ns.list = ns.list + [i] %}{% endfor %}{{ ns.x }}{{ ns.list }}{{ ns.nope is defined }}{{ ns['x'] }}",
    "{% set ns.x = 1 %}", "{% set d.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}",
    "{% for loop in l %}{% endfor %}", "{% for i in l %}{% set loop = 1 %}{% endfor %}", "{% set loop = 1 %}{{ loop }}",
    "{% for x in l %}{% if loop.first %}{% set y = x %}{% endif %}{{ y }}{% endfor %}{{ y is defined }}",
    "{% for x in (l | select('odd')) %}{{ x }}{{ loop.length }}{% endfor %}{% set g = l | select('odd') %}{{ g | list }}{{ g | list }}",
    "{% set ns = namespace(n=0) %}{% for x in range(5) if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}{{ ns.n }}",
    "{% set ns = namespace(n=0) %}{% for x in range(5) if ns.n < 2 %}{{ loop.last }}{% set ns.n = ns.n + 1 %}{{ x }}{% endfor %}{{ ns.n }}",
    "{% set ns = namespace(a=1, b=2) %}{% set ns.a, ns.b = ns.b, ns.a %}{{ ns.a }}{{ ns.b }}",
    "{% for x in l %}{{ loop }}{{ loop | length }}{{ loop == loop }}{{ loop and 'y' }};{% endfor %}", "{% for x in 5 %}{% endfor %}",
    "{% for x in l %}{{ loop.index }}{% for y in words %}{{ loop }}{% endfor %}{% endfor %}",
    # set, with, if
    "{% set a, b = 1, 2 %}{{ a + b }}{% set c = 1, 2 %}{{ c }}{% set (d, e) = 'xy' %}{{ d }}{{ e }}",
    "{% set x %}a{{ n }}b{% endset %}[{{ x }}]{{ x is string }}", "{% set x | upper | replace('A', 'z') %}a{{ n }}b{% endset %}[{{ x }}]",
    "{% set x %}{% set y = 5 %}{{ y }}{% endset %}{{ x }}{{ y is defined }}",
    "{% if yes %}{% set q = 1 %}{% endif %}{{ q }}{% if no %}{% set r = 1 %}{% endif %}{{ r is defined }}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 5 %}{{ a }}{% endwith %}{{ a is defined }}", "{% with %}x{% endwith %}", "{% set a = 9 %}{% with a = 1, b = a %}{{ b }}{% endwith %}",
    "{% if n == 1 %}a{% elif n == 7 %}b{% elif n == 7 %}c{% else %}d{% endif %}", "{% if missing %}a{% else %}b{% endif %}", "{% if l: %}x{% endif %}",
    "{% if 1, 2 %}x{% endif %}", "{% set 1 = 2 %}", "{% set none = 2 %}", "{% set x.y.z = 1 %}", "{% set s[0] = 1 %}",
    "{% set x = 1 if yes %}{{ x }}{% set x = 1 if no %}{{ x is defined }}",
    "{% print 1, 'a' %}", "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}a{% endfilter %}",
    "{% set messages = messages[1:] %}{{ messages | length }}", "{% for m in messages %}{% set messages = 1 %}{{ m.role }}{{ messages }}{% endfor %}{{ messages | length }}",
    # macros and calls
    "{% macro m(a, b=2, c='x' ~ a) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, c=5) }}{{ m(b=1, a=0) }}{{ m() }}{{ m('a', 'b', 'c') | upper }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}", "{% macro m() %}{{ caller('q') }}{% endmacro %}{% call(x) m() %}<{{ x }}{{ n }}>{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}{% if caller is defined %}y{{ caller() }}{% else %}n{% endif %}{% endmacro %}{{ m() }}{% call m() %}z{% endcall %}",
    "{% macro m(x) %}x{% endmacro %}{% call m(1) %}z{% endcall %}", "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro a() %}{{ v }}{% endmacro %}{% set v = 1 %}{{ a() }}{% set v = 2 %}{{ a() }}", "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q is defined }}", "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m() %}{{ loop is defined }}{% endmacro %}{% for x in l %}{{ m() }}{% endfor %}",
    "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}", "{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}", "{% macro m(x) -%}\n  {{ x }}\n{%- endmacro %}[{{ m(1) }}][{{ m(2) | trim }}]", "{% macro m(a, a2=a) %}{{ a2 }}{% endmacro %}{{ m(3) }}",
    "{% block x %}a{{ n }}{% endblock %}{% block y scoped %}b{% endblock y %}", "{% set q = 1 %}{% block x %}{{ q }}{% set q = 2 %}{% endblock %}{{ q }}", "{% for x in l %}{% block b %}{{ x is defined }}{% endblock %}{% endfor %}",
    "{% generation %}a{{ n }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}", "{% for m in messages %}{% if m.role == 'assistant' %}{%- generation -%}\n{{ m.content }}\n{%- endgeneration -%}{% endif %}{% endfor %}",
    # white space
    "  {% if yes %}  \n  a\n  {% endif %}\nb", "a\n  {%- if yes -%}\n  b \n {%- endif %}\n  c", "a {{- n -}} b {{ n -}}\n c", "a\n{# c #}\nb\n  {# d #}  \ne{#- f -#}\n g", "  {{ n }}  \n{{ n }}\n",
    "{%+ if yes %}a{% endif +%}\nb", "  {%+ if yes +%}\n  a{% endif %}", "x\n  {% if yes +%}\n y {%+ endif %}", "a\r\nb\rc\n\n", "a\n", "a\n\n", "", "\n", " ", "{% if yes %}\n\n\na{% endif %}", "{{ 'a\r\nb' }}",
    "{% raw %}{{ x }}{% if %}{% endraw %}", "{% raw %}\n {{ x }}\n{% endraw %}\nb", "a  {%- raw -%}  {{ x }} {%- endraw -%}  b", "  {% raw %}x{% endraw %}", "{% raw %}x", "{# x", "{{ x", "{% if x", "{% raw %} a {%+ endraw %} b", "{%raw%}{%endraw%}",
    "{{ '}}' }}{{ {'a': {'b': 1}}}}{{ '{%' }}", "{{ {'a': 1}['a'] }}", "{% set x = '%}' %}{{ x }}", "{{ '{{' }}", "{ { } }", "{", "{%", "{{", "{#", "{{}}", "{%%}", "{##}", "#}", "%}", "}}", "{{ 1 }}}", "{{{1}}}", "{{ 1 -}}", "{{- 1 }} {{+ 1 }}", "{{ 1 +}}", "{%- -%}",
    "{% if yes -%}\n\n  a{%- endif %}\n\n{#- x #}b", "line\n\t {% set a = 1 %}\n\t{{ a }}", "\u00a0{% if yes %}x{% endif %}\u3000\n{% if yes %}\u3000{% endif %}", "a {%- if yes %} b{% endif %} c", "{% for x in l -%}\n {{ x }}\n{%- endfor %}", "{% for x in l %}\n {{ x }}\n{% endfor %}\n",
    # refused
    "{% include 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}", "{% extends 'x' %}", "{% nope %}", "{% endif %}", "{% if yes %}", "{% if yes %}{% endfor %}", "{% for %}{% endfor %}", "{% for x l %}{% endfor %}", "{% set %}", "{% 1 %}", "{{ 1 2 }}", "{{ (1 }}", "{{ 1) }}", "{{ [1) }}", "{{ @ }}", "{{ a.1.b }}", "{{ a. }}", "{{ a | }}", "{{ a is }}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% call x %}{% endcall %}", "{% else %}", "{% if yes %}a{% else %}b{% else %}c{% endif %}", "{% for x in l %}a", "{% set x = %}", "{{ f(a=1, 2) }}", "{{ f(*a, *b) }}", "{{ f(**a, b=1) }}", "{{ f(,) }}", "{{ f(1,) }}", "{% if yes %}{{ 1 | nope }}{% endif %}", "{% if no %}{{ 1 | nope }}{% endif %}x", "{% for x in [] %}{{ 1 | nope }}{% endfor %}x", "{% if no %}{% for x in l %}{{ 1 | nope }}{% endfor %}{% endif %}x", "{% if no %}{{ 1 is nope }}{% endif %}x",
    "{{ '\\x4' }}", "{{ '\\u12' }}", "{{ 'a' 'b' ~ 'c' }}", "{{ 'tr\\\nue' }}", "{% do l.append(1) %}", "{% trans %}x{% endtrans %}", "{{ true.x is defined }}{{ 5.x }}", "{{ 1if yes else 2 }}", "{{ 1.5.x is defined }}", "{{ x..y }}", "{{ a ! b }}", "{{ a; b }}", "{{ a ? b }}",
    # a pass over messages, as chat templates are written
    "{%- if messages[0]['role'] == 'system' -%}\n    {%- set system = messages[0]['content'] | trim -%}\n    {%- set rest = messages[1:] -%}\n{%- else -%}\n    {%- set system = none -%}\n    {%- set rest = messages -%}\n{%- endif -%}\n{%- for m in rest -%}\n    {%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}\n        {{ raise_exception('Roles must alternate') }}\n    {%- endif -%}\n    {{- '<|' + m['role'] + '|>\n' + m['content'] | trim + '</s>\n' -}}\n{%- endfor -%}",
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "{% set ns = namespace(found=false) %}{% for m in messages[::-1] if not ns.found %}{% if m.role == 'user' %}{% set ns.found = true %}{{ m.content.split(' ')[-1] }}{% endif %}{% endfor %}",
    "{% for m in messages %}{% set content = m.content %}{% if 'll' in content %}{% set content = content.split('ll')[-1] | upper %}{% endif %}{{ content }}|{% endfor %}",
]


def snippets():
    return ["{{ " + line + " }}" for line in EXPRESSIONS.strip().splitlines()] + TEMPLATES
