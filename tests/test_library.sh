#!/usr/bin/env bash
# test_library.sh - the library as it is installed: the example in C, its functions in C and the header in C++, linked by
# what pkg-config says; after `make shared` the shared object too.
cd "$(dirname "$0")/.." || exit 1
. tests/lib.sh
case $RUN in
*release*) ;;
*) ok "the release program's test installs it" && exit 0 ;;
esac
M=weights/shakespeare.gguf
check "make install" make -s install PREFIX="$tmp/usr"
flags() { sed -n "s|^$1: *||p" "$tmp/usr/lib/pkgconfig/gpt2llama.pc" | sed "s|\${prefix}|$tmp/usr|g" | tr '\n' ' '; }
if command -v pkg-config >/dev/null; then
    check "pkg-config" diff <(PKG_CONFIG_PATH=$tmp/usr/lib/pkgconfig pkg-config --cflags gpt2llama | xargs) <(flags Cflags | xargs)
fi
# shellcheck disable=SC2046
build() { ${1} -Wall -Wextra -Werror $(flags Cflags) "$2" $(flags Libs | sed "s|-lgpt2llama|$tmp/usr/lib/libgpt2llama.a|") $(flags Libs.private) -o "$3"; }
check "the example compiles" build "gcc -std=c11" examples/complete.c "$tmp/complete"
check "it writes the program's text" diff <("$RUN" $M -t 0 -n 20 -i ROMEO: 2>/dev/null) <("$tmp/complete" $M ROMEO: 20)
check "an error is one line" grep -q '^complete: .*nowhere: ' <("$tmp/complete" "$tmp/nowhere" A 2>&1)

cat >"$tmp/use.cc" <<'P'
#include <gpt2llama.h>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>
#define CHECK(x) do { if (!(x)) { std::printf("line %d: %s (%s)\n", __LINE__, #x, error); return 1; } } while (0)
static int first(void *arg, const char *bytes, size_t n) { static_cast<std::vector<char> *>(arg)->insert(static_cast<std::vector<char> *>(arg)->end(), bytes, bytes + n); return 1; }
/* What is kept of the last call went through the model in other company: sums may round otherwise. */
static bool near(const std::vector<float> &a, const std::vector<float> &b) {
    for (size_t i = 0; i < a.size(); i++)
        if (std::fabs(a[i] - b[i]) > 1e-3f) return false;
    return true;
}
int main(int, char **argv) {
    char error[256] = "";
    CHECK(g2l_version() / 10000 == G2L_VERSION / 10000);
    CHECK(!g2l_open(argv[1], nullptr, -1, 1, error, sizeof error) && std::strstr(error, "context"));
    G2L *g = g2l_open(argv[1], nullptr, 64, 2, error, sizeof error);
    CHECK(g && g2l_context(g) == 64 && g2l_vocab_size(g) == 1024);
    int ids[8], n = g2l_tokenize(g, "ROMEO:", ids, 8, error, sizeof error);
    CHECK(n == 3 && g2l_tokenize(g, "ROMEO:", ids, 1, error, sizeof error) == 3);
    std::vector<float> a(1024), b(1024);
    CHECK(g2l_logits(g, ids, 3, a.data(), error, sizeof error) == 0);
    CHECK(g2l_logits(g, ids, 2, b.data(), error, sizeof error) == 0 && a != b);
    CHECK(g2l_logits(g, ids, 3, b.data(), error, sizeof error) == 0 && near(a, b));
    CHECK(g2l_logits(g, ids, 0, b.data(), error, sizeof error) == -1 && std::strstr(error, "tokens"));
    int bad = 1024;
    CHECK(g2l_logits(g, &bad, 1, b.data(), error, sizeof error) == -1 && std::strstr(error, "1024"));
    G2LSampling s = {};
    s.top_p = 1;
    std::vector<char> text;
    CHECK(g2l_generate(g, "ROMEO:", 20, &s, first, &text, error, sizeof error) >= 1 && !text.empty() && text.size() < 12);
    CHECK(g2l_generate(g, "ROMEO:", 5, &s, nullptr, nullptr, error, sizeof error) == 5);
    s.temperature = -1;
    CHECK(g2l_generate(g, "ROMEO:", 5, &s, nullptr, nullptr, error, sizeof error) == -1 && std::strstr(error, "temperature"));
    CHECK(g2l_logits(g, ids, 3, b.data(), error, sizeof error) == 0 && near(a, b));
    g2l_close(g);
    g2l_close(nullptr);
    return 0;
}
P
check "C++ compiles it" build "g++ -std=c++17" "$tmp/use.cc" "$tmp/use"
check "its functions" "$tmp/use" $M
if [ -e build/shared/libgpt2llama.so ]; then
    check "the shared object" gcc -std=c11 $(flags Cflags) examples/complete.c $(flags Libs) -o "$tmp/dynamic"
    check "it writes the same" diff <("$tmp/complete" $M ROMEO: 20) <(LD_LIBRARY_PATH=$tmp/usr/lib "$tmp/dynamic" $M ROMEO: 20)
    empty "it exports g2l_* only" "$(nm -D --defined-only build/shared/libgpt2llama.so | awk '{ print $3 }' | grep -vE '^g2l_|^_ZN|^_ZT|^_ZS|^_ZGV|^_ZNK')"
fi
check "make uninstall" make -s uninstall PREFIX="$tmp/usr"
empty "uninstall leaves nothing" "$(find "$tmp/usr" -type f -o -type l)"
