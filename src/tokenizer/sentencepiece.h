/* sentencepiece - a .model file through libsentencepiece. C callers see no C++ and no exception. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SpModel SpModel;

enum { SP_WHY = 160 };

/* sp_open - from the file's bytes; NULL, with the reason in why, on failure. */
SpModel *sp_open(const void *data, size_t size, char why[SP_WHY]);
void sp_close(SpModel *m);

int sp_size(const SpModel *m);
/* sp_piece - text (valid as long as m), score, and kind in GGUF's numbering (PieceKind). */
const char *sp_piece(const SpModel *m, int id, size_t *n, float *score, int *kind);
int sp_bos(const SpModel *m); /* -1: none */
int sp_eos(const SpModel *m);

/* sp_encode - calls push(arg, id) for each id; false, with the reason in why, on failure or when push says so. */
bool sp_encode(const SpModel *m, const char *text, size_t n, bool (*push)(void *arg, int id), void *arg,
               char why[SP_WHY]);

#ifdef __cplusplus
}
#endif
