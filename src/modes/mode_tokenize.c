#include <stdlib.h>
#include <string.h>

#include "modes/modes.h"
#include "gen/session.h"
#include "base/text.h"

static bool has_suffix(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* CHECKPOINT may be a tokenizer alone; of a checkpoint only the header is read. */
static Tokenizer *open_any(const Options *o, Checkpoint *ck, Error *e) {
    const char *path = o->checkpoint;
    if (o->tokenizer) {
        Tokenizer *t = tokenizer_open(o->tokenizer, e);
        if (!t || has_suffix(path, ".model") || has_suffix(path, ".json")) return t;
        if (checkpoint_open(ck, path, e) == 0) {
            if (tokenizer_vocab_size(t) <= ck->config.vocab_size &&
                (tokenizer_vocab_size(t) == ck->config.vocab_size || ck->format >= FORMAT_SAFETENSORS))
                return t;
            fail(e, "%s: tokenizer: expected %d tokens as the model has, found %d", o->tokenizer, ck->config.vocab_size,
                 tokenizer_vocab_size(t));
        }
        tokenizer_close(t);
        return NULL;
    }
    if (has_suffix(path, ".model") || has_suffix(path, ".json")) return tokenizer_open(path, e);
    Error why_not = {0};
    if (checkpoint_open(ck, path, &why_not) == 0) return session_tokenizer(o, ck, e);
    Error neither = {0};
    Tokenizer *t = tokenizer_open(path, &neither);
    if (!t) *e = error_is_memory(&neither) || strstr(neither.text, "tokenizer.ggml.") ? neither : why_not;
    return t;
}

/* The text of --tokens. Special tokens add none, unless --special writes them out. */
static int decode(const Options *o, const Tokenizer *t, FILE *out, Error *e) {
    char *text = NULL, buffer[8];
    size_t n = 0;
    int silent = 0;
    if (tokens_check(o->tokens, o->n_tokens, tokenizer_vocab_size(t), e)) return -1;
    FILE *to = o->json ? open_memstream(&text, &n) : out;
    if (!to) return fail(e, "text: memory: expected some, found none");
    for (int i = 0, last = -1; i < o->n_tokens; last = tokenizer_next(t, last, o->tokens[i++])) {
        const char *bytes;
        size_t length = tokenizer_decode(t, last, o->tokens[i], &bytes, buffer);
        if (length == 0 && o->special) bytes = tokenizer_piece(t, o->tokens[i], &length);
        silent += length == 0;
        text_print(to, bytes, length, o->raw);
    }
    if (o->json) {
        fclose(to);
        fputs("{\"text\": ", out);
        text_print_json(out, text, n);
        fputc('}', out);
        free(text);
    }
    fputc('\n', out);
    if (silent && !o->quiet) fprintf(o->log, "special tokens without text: %d (--special writes them out)\n", silent);
    return 0;
}

int mode_tokenize(const Options *o, FILE *out, Error *e) {
    Checkpoint ck = {0};
    Tokenizer *t = open_any(o, &ck, e);
    char *text = NULL;
    int *ids = NULL, n = 0, code = 1;
    if (!t) goto done;
    session_note(t, o);
    if (o->tokens) {
        code = decode(o, t, out, e) ? 1 : 0;
        goto done;
    }
    size_t size;
    unsigned how = (o->no_bos ? 0 : TOKENIZE_BOS) | (o->no_special ? 0 : TOKENIZE_SPECIAL);
    if (options_text(o, &text, &size, e) || tokenizer_encode(t, text, size, how, &ids, &n, e)) goto done;
    if (o->json) fputs("{\"ids\": [", out);
    for (int i = 0; i < n; i++) fprintf(out, "%s%d", i ? o->json ? ", " : " " : "", ids[i]);
    if (o->json) {
        fputs("], \"pieces\": [", out);
        for (int i = 0; i < n; i++) {
            size_t length;
            const char *piece = tokenizer_piece(t, ids[i], &length);
            if (i) fputs(", ", out);
            text_print_json(out, piece, length);
        }
        fputs("]}", out);
    }
    fputc('\n', out);
    code = 0;
done:
    free(ids);
    free(text);
    tokenizer_close(t);
    checkpoint_close(&ck);
    return code;
}
