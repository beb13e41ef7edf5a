#include "tokenizer/sentencepiece.h"

#include <cstdio>
#include <exception>
#include <memory>
#include <sentencepiece_processor.h>
#include <string>
#include <vector>

struct SpModel {
    sentencepiece::SentencePieceProcessor processor;
};

static void set_why(char why[SP_WHY], const char *text) { std::snprintf(why, SP_WHY, "%s", text); }

extern "C" SpModel *sp_open(const void *data, size_t size, char why[SP_WHY]) {
    try {
        auto m = std::make_unique<SpModel>();
        auto status = m->processor.LoadFromSerializedProto(absl::string_view(static_cast<const char *>(data), size));
        if (status.ok()) return m.release();
        set_why(why, status.ToString().c_str());
    } catch (const std::exception &e) {
        set_why(why, e.what());
    } catch (...) {
        set_why(why, "an unknown exception");
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
        std::vector<int> ids;
        auto status = m->processor.Encode(absl::string_view(text, n), &ids);
        if (!status.ok()) {
            set_why(why, status.ToString().c_str());
            return false;
        }
        for (int id : ids)
            if (!push(arg, id)) return false;
        return true;
    } catch (const std::exception &e) {
        set_why(why, e.what());
    } catch (...) {
        set_why(why, "an unknown exception");
    }
    return false;
}
