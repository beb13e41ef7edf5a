#include "tokenizer/end_tokens.h"

#include <string.h>

#include "tokenizer/impl.h"

typedef enum {
    ROLE_CONTROL = 1, /* no text, though it ends nothing */
    ROLE_END,
    ROLE_TEXT, /* gpt-oss shows these */
} Role;

static const struct {
    const char *text;
    Role role;
} KNOWN[] = {
    {"<|eot_id|>", ROLE_END},
    {"<|im_end|>", ROLE_END},
    {"<|end|>", ROLE_END},
    {"<|return|>", ROLE_END},
    {"<|call|>", ROLE_END},
    {"<|flush|>", ROLE_END},
    {"<|calls|>", ROLE_END},
    {"<end_of_turn>", ROLE_END},
    {"<|endoftext|>", ROLE_END},
    {"</s>", ROLE_END},
    {"<|eom_id|>", ROLE_END},
    {"<EOT>", ROLE_END},
    {"_<EOT>", ROLE_END},
    {"[EOT]", ROLE_END},
    {"[EOS]", ROLE_END},
    {"<|end_of_text|>", ROLE_END},
    {"<end_of_utterance>", ROLE_END},
    {"<eos>", ROLE_END},
    {"<turn|>", ROLE_END},
    {"<|tool_response>", ROLE_END},
    {"<｜end▁of▁sentence｜>", ROLE_END},
    {"[e~[", ROLE_END},
    /* What separates files in models of code ends a text too. */
    {"<|fim_pad|>", ROLE_END},
    {"<fim-pad>", ROLE_END},
    {"<fim_pad>", ROLE_END},
    {"<PAD>", ROLE_END},
    {"[PAD]", ROLE_END},
    {"<|fim_repo|>", ROLE_END},
    {"<|repo_name|>", ROLE_END},
    {"<fim-repo>", ROLE_END},
    {"<REPO>", ROLE_END},
    {"<reponame>", ROLE_END},
    {"<|file_sep|>", ROLE_END},
    {"<|fim_prefix|>", ROLE_CONTROL},
    {"<fim-prefix>", ROLE_CONTROL},
    {"<fim_prefix>", ROLE_CONTROL},
    {"<｜fim▁begin｜>", ROLE_CONTROL},
    {"<PRE>", ROLE_CONTROL},
    {"▁<PRE>", ROLE_CONTROL},
    {"<|code_prefix|>", ROLE_CONTROL},
    {"<|prefix|>", ROLE_CONTROL},
    {"<|fim_suffix|>", ROLE_CONTROL},
    {"<fim-suffix>", ROLE_CONTROL},
    {"<fim_suffix>", ROLE_CONTROL},
    {"<｜fim▁hole｜>", ROLE_CONTROL},
    {"<SUF>", ROLE_CONTROL},
    {"▁<SUF>", ROLE_CONTROL},
    {"<|code_suffix|>", ROLE_CONTROL},
    {"<|suffix|>", ROLE_CONTROL},
    {"<|fim_middle|>", ROLE_CONTROL},
    {"<fim-middle>", ROLE_CONTROL},
    {"<fim_middle>", ROLE_CONTROL},
    {"<｜fim▁end｜>", ROLE_CONTROL},
    {"<MID>", ROLE_CONTROL},
    {"▁<MID>", ROLE_CONTROL},
    {"<|code_middle|>", ROLE_CONTROL},
    {"<|middle|>", ROLE_CONTROL},
    {"<|channel|>", ROLE_TEXT},
    {"<|message|>", ROLE_TEXT},
    {"<|start|>", ROLE_TEXT},
    {"<|constrain|>", ROLE_TEXT},
};
enum { N_KNOWN = sizeof KNOWN / sizeof *KNOWN };

static int row_of(const char *text, size_t n) {
    for (int i = 0; i < N_KNOWN; i++)
        if (strlen(KNOWN[i].text) == n && memcmp(KNOWN[i].text, text, n) == 0) return i;
    return -1;
}

void known_pieces(struct Tokenizer *t) {
    int found[N_KNOWN];
    for (int i = 0; i < N_KNOWN; i++) found[i] = -1;
    for (int id = 0; id < t->vocab.n; id++) {
        const Piece *p = &t->vocab.pieces[id];
        int row = p->n && p->n < 32 && strchr("<_[\xe2", p->text[0]) ? row_of(p->text, p->n) : -1;
        if (row >= 0) found[row] = id;
    }
    /* Two families have a token of such a name that ends nothing. */
#define HAS(name) (found[row_of((name), sizeof(name) - 1)] >= 0)
    bool end_is_text =
        (HAS("<|return|>") && HAS("<|call|>")) || ((HAS("<|call|>") || HAS("<|calls|>")) && HAS("<|flush|>"));
    bool s_is_text = HAS("<|tool_response>");
#undef HAS
    for (int i = 0; i < N_KNOWN; i++) {
        if (found[i] < 0) continue;
        Piece *p = &t->vocab.pieces[found[i]];
        bool text = (end_is_text && strcmp(KNOWN[i].text, "<|end|>") == 0);
        if (KNOWN[i].role == ROLE_TEXT || text) p->kind = PIECE_USER;
        else if (s_is_text && strcmp(KNOWN[i].text, "</s>") == 0) p->kind = PIECE_NORMAL;
        else p->kind = PIECE_CONTROL;
        if (p->kind == PIECE_CONTROL && KNOWN[i].role == ROLE_END) add_eos(t, found[i]);
    }
}
