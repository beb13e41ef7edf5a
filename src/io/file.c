#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

int file_open(const char *path, struct stat *st, Error *e) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail(e, "%s: file: expected to open it, found %s", path, strerror(errno));
    if (fstat(fd, st) != 0) fail(e, "%s: file: expected its size, found %s", path, strerror(errno));
    else if (S_ISREG(st->st_mode)) return fd;
    else fail(e, "%s: file: expected a regular file, found %s", path, kind_of(st->st_mode));
    close(fd);
    return -1;
}

int file_map(File *f, const char *path, Error *e) {
    *f = (File){0};
    struct stat st;
    int fd = file_open(path, &st, e), status = -1;
    if (fd < 0) return -1;
    if (st.st_size == 0) {
        fail(e, "%s: size: expected a model or tokenizer, found an empty file", path);
        goto done;
    }
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        fail(e, "%s: mapping: expected %lld bytes, found %s", path, (long long)st.st_size, strerror(errno));
        goto done;
    }
    char *copy = strdup(path);
    if (!copy) {
        munmap(data, (size_t)st.st_size);
        fail(e, "%s: memory: expected some, found none", path);
        goto done;
    }
    *f = (File){.data = data, .size = (size_t)st.st_size, .path = copy};
    status = 0;
done:
    close(fd);
    return status;
}

/* The most that a file of a kind may hold: many times what any model has. JSON in memory takes 40 times its text. */
static size_t most_of(const char *path) {
    enum { MIB = 1 << 20 };
    static const struct {
        const char *name; /* or the end of it */
        size_t most;
    } kinds[] = {{"model.safetensors.index.json", 64 * MIB},
                 {"tokenizer_config.json", 16 * MIB},
                 {"added_tokens.json", 16 * MIB},
                 {"special_tokens_map.json", 4 * MIB},
                 {"config.json", 4 * MIB}, /* generation_config.json too */
                 {"vocab.json", 128 * MIB},
                 {"merges.txt", 128 * MIB},
                 {".json", 256 * MIB}, /* tokenizer.json under any name */
                 {".jinja", 4 * MIB}};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t m = strlen(kinds[i].name);
        if (n >= m && strcmp(path + n - m, kinds[i].name) == 0) return kinds[i].most;
    }
    return SIZE_MAX;
}

/* A pipe that is standard input by another name (/dev/stdin, a shell's `<(...)`) is read like it. */
static int open_text(const char *path, struct stat *st, Error *e) {
    if (strcmp(path, "-") == 0) return *st = (struct stat){0}, dup(STDIN_FILENO);
    if (strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
        strncmp(path, "/proc/self/fd/", 14) == 0)
        return *st = (struct stat){0}, open(path, O_RDONLY | O_CLOEXEC);
    return file_open(path, st, e);
}

int file_read(char **data, size_t *size, const char *path, Error *e) {
    return file_read_most(data, size, path, SIZE_MAX, e);
}

int file_read_most(char **data, size_t *size, const char *path, size_t most, Error *e) {
    struct stat st;
    if (most > most_of(path)) most = most_of(path);
    *data = NULL;
    *size = 0;
    int fd = open_text(path, &st, e), status = -1;
    if (fd < 0) return fail(e, "%s: file: expected to open it, found %s", path, strerror(errno));
    if (st.st_size > 0 && (uintmax_t)st.st_size > most) {
        fail(e, "%s: size: expected at most %zu bytes, found %lld", path, most, (long long)st.st_size);
        goto done;
    }
    for (size_t room = 0;;) {
        if (*size > most) {
            fail(e, "%s: size: expected at most %zu bytes, found more", path, most);
            goto done;
        }
        if (*size + 1 >= room) {
            room = room ? 2 * room : 1 << 16;
            char *larger = realloc(*data, room);
            if (!larger) {
                fail(e, "%s: memory: expected %zu bytes, found less", path, room);
                goto done;
            }
            *data = larger;
        }
        ssize_t n = read(fd, *data + *size, room - *size - 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            fail(e, "%s: file: expected to read it, found %s", path, strerror(errno));
            goto done;
        }
        if (n == 0) break;
        *size += (size_t)n;
    }
    (*data)[*size] = 0;
    status = 0;
done:
    if (status) {
        free(*data);
        *data = NULL;
    }
    close(fd);
    return status;
}

int file_can_write(const char *path, Error *e) {
    char aside[FILE_PATH];
    struct stat st;
    if (snprintf(aside, sizeof aside, "%s.%d.part", path, (int)getpid()) >= (int)sizeof aside)
        return fail(e, "%s: path: expected a shorter one, found %zu bytes", path, strlen(path));
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return fail(e, "%s: file: expected a regular file or none, found %s", path, kind_of(st.st_mode));
    int fd = open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return fail(e, "%s: file: expected to create it, found %s", path, strerror(errno));
    close(fd);
    unlink(aside);
    return 0;
}

void file_close(File *f) {
    if (f->data) munmap((void *)(uintptr_t)f->data, f->size);
    free((char *)(uintptr_t)f->path);
    *f = (File){0};
}

/* The whole pages among bytes [from, from + n); false: there are none, or they are not of this mapping. */
static bool whole_pages(const File *f, const void *from, size_t n, uintptr_t *first, uintptr_t *end) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = f ? (uintptr_t)f->data : 0, at = (uintptr_t)from;
    if (f && (at < begin || at - begin > f->size || n > f->size - (at - begin))) return false;
    *first = (at + page - 1) / page * page;
    *end = (at + n) / page * page;
    return *end > *first;
}

void file_release(const File *f, const void *from, size_t n) {
    uintptr_t first, end;
    if (whole_pages(f, from, n, &first, &end)) madvise((void *)first, end - first, MADV_DONTNEED);
}

void file_drop(const File *f, const void *from, size_t n) {
    uintptr_t first, end;
    if (!whole_pages(f, from, n, &first, &end)) return;
    /* Stays reserved, so that nothing else comes to lie within the mapping that file_close unmaps. */
    int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap((void *)first, end - first, PROT_NONE, how, -1, 0) == MAP_FAILED) return; /* they stay */
}

static bool begins(const File *f, const char *text, size_t n) { return f->size >= n && memcmp(f->data, text, n) == 0; }

const char *file_diagnose(const File *f) {
    static const struct {
        const char *start;
        size_t n;
        const char *is;
    } known[] = {
        {"version https://git-lfs", 23, "a Git LFS pointer, not the file itself (run: git lfs pull)"},
        {"<!DOCTYPE", 9, "an HTML page (a download that went wrong)"},
        {"<!doctype", 9, "an HTML page (a download that went wrong)"},
        {"<html", 5, "an HTML page (a download that went wrong)"},
        {"PK\x03\x04", 4,
         "a ZIP archive or PyTorch pickle (convert it: save_pretrained(..., "
         "safe_serialization=True))"},
        {"\x80\x02", 2, "a PyTorch pickle (convert it: save_pretrained(..., safe_serialization=True))"},
        {"\x1f\x8b", 2, "a gzip archive"},
        {"ggml", 4, "an old GGML file (before GGUF)"},
        {"lmgg", 4, "an old GGML file (before GGUF)"},
        {"tjgg", 4, "an old GGJT file (before GGUF)"},
        {"FUGG", 4, "a big-endian GGUF file"},
        {"GGUF", 4, "a GGUF file"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (begins(f, known[i].start, known[i].n)) return known[i].is;
    size_t look = f->size < 256 ? f->size : 256, printable = 0;
    for (size_t i = 0; i < look; i++)
        printable +=
            f->data[i] >= ' ' ? f->data[i] < 127 : f->data[i] == '\n' || f->data[i] == '\t' || f->data[i] == '\r';
    return look && printable == look ? "a text file" : NULL;
}
