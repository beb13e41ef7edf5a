#include "tokenizer/sentencepiece.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <sentencepiece_processor.h>
#include <string>
#include <vector>

namespace sentencepiece::logging {
void SetMinLogLevel(int level); /* exported by the library, declared in a header that is not installed */
}
enum { LOG_FATAL_ONLY = 3 };

struct SpModel {
    sentencepiece::SentencePieceProcessor processor;
};

/* When memory runs out in the middle of the library's work, it does not always get as far as an exception: protobuf
 * ends the program where a half-made message is destroyed. So some memory is kept back, and given to the library when
 * there is no other; it comes to its end with that, and what it made is thrown away. */
static thread_local void *kept_back;

static void give_back() {
    if (!kept_back) throw std::bad_alloc();
    std::free(kept_back);
    kept_back = nullptr;
}

struct Reserve {
    explicit Reserve(size_t bytes) {
        if (!(kept_back = std::malloc(bytes))) throw std::bad_alloc();
        std::set_new_handler(give_back); /* does what new does without it where nothing is kept back */
    }
    ~Reserve() {
        std::free(kept_back);
        kept_back = nullptr;
    }
    void check() const {
        if (!kept_back) throw std::bad_alloc();
    }
};

static void set_why(char why[SP_WHY], const char *text) { std::snprintf(why, SP_WHY, "%s", text); }

/* Within a catch: what was thrown. */
static void set_why_caught(char why[SP_WHY]) {
    try {
        throw;
    } catch (const std::bad_alloc &) {
        set_why(why, "memory: expected some, found none");
    } catch (const std::exception &e) {
        set_why(why, e.what());
    } catch (...) {
        set_why(why, "an unknown exception");
    }
}

extern "C" SpModel *sp_open(const void *data, size_t size, char why[SP_WHY]) {
    try {
        /* The library prints texts of the model (those of its self-test) as they are, also where it succeeds. */
        sentencepiece::logging::SetMinLogLevel(LOG_FATAL_ONLY);
        Reserve reserve(16 * size + (1 << 20));
        auto m = std::make_unique<SpModel>();
        auto status = m->processor.LoadFromSerializedProto(absl::string_view(static_cast<const char *>(data), size));
        reserve.check();
        if (status.ok()) return m.release();
        set_why(why, status.ToString().c_str());
    } catch (...) {
        set_why_caught(why);
    }
    return nullptr;
}

extern "C" void sp_close(SpModel *m) { delete m; }

extern "C" int sp_size(const SpModel *m) { return m->processor.GetPieceSize(); }

extern "C" const char *sp_piece(const SpModel *m, int id, size_t *n, float *score, int *kind) {
    const auto &p = m->processor;
    const std::string &text = p.IdToPiece(id);
    *n = text.size();
    *score = p.GetScore(id);
    *kind = p.IsUnknown(id) ? 2 : p.IsControl(id) ? 3 : p.IsUnused(id) ? 5 : p.IsByte(id) ? 6 : 1;
    return text.data();
}

extern "C" int sp_bos(const SpModel *m) { return m->processor.bos_id(); }
extern "C" int sp_eos(const SpModel *m) { return m->processor.eos_id(); }

extern "C" bool sp_encode(const SpModel *m, const char *text, size_t n, bool (*push)(void *arg, int id), void *arg,
                          char why[SP_WHY]) {
    try {
        Reserve reserve(64 * n + (1 << 16));
        std::vector<int> ids;
        auto status = m->processor.Encode(absl::string_view(text, n), &ids);
        reserve.check();
        if (status.ok()) {
            for (int id : ids)
                if (!push(arg, id)) return false;
            return true;
        }
        set_why(why, status.ToString().c_str());
    } catch (...) {
        set_why_caught(why);
    }
    return false;
}
