#include "gen/models.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/file.h"

enum { PATH_ROOM = 4096 };

static bool exists(const char *directory, const char *name) {
    char path[PATH_ROOM];
    return snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path && access(path, F_OK) == 0;
}

static bool is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int add(ModelList *m, const char *name, size_t n_name, const char *path, Error *e) {
    FoundModel *more = realloc(m->list, ((size_t)m->n + 1) * sizeof *more);
    if (more) m->list = more;
    FoundModel found = {strndup(name, n_name), strdup(path)};
    if (!more || !found.name || !found.path) {
        free(found.name);
        free(found.path);
        return fail(e, "models: memory: expected some, found none");
    }
    m->list[m->n++] = found;
    return 0;
}

/* Bytes of a file's name without its ending; 0 when it is no checkpoint's, or a later part of one. */
static size_t stem(const char *name) {
    static const char *const endings[] = {".gguf", ".bin", ".safetensors"};
    size_t n = strlen(name);
    const char *of = strstr(name, "-of-");
    if (strcmp(name, "tokenizer.bin") == 0 || (of && of - name >= 6 && strncmp(of - 6, "-00001", 6) != 0)) return 0;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t m = strlen(endings[i]);
        if (n > m && strcmp(name + n - m, endings[i]) == 0) return n - m;
    }
    return 0;
}

/* The files of a directory that are models, and with `folders` the directories within that are; names begin with
 * prefix. */
static int scan_directory(ModelList *m, const char *directory, const char *prefix, bool folders, Error *e) {
    DIR *d = opendir(directory);
    int status = 0;
    for (struct dirent *x; d && !status && (x = readdir(d));) {
        char path[PATH_ROOM], name[PATH_ROOM];
        if (x->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", directory, x->d_name) >= (int)sizeof path)
            continue;
        bool folder = is_directory(path);
        size_t n = folder ? strlen(x->d_name) : stem(x->d_name);
        if (n == 0 || (folder && !(folders && exists(path, "config.json")))) continue;
        int length = snprintf(name, sizeof name, "%s%.*s", prefix, (int)n, x->d_name);
        if (length < (int)sizeof name) status = add(m, name, (size_t)length, path, e);
    }
    if (d) closedir(d);
    return status;
}

char *models_snapshot(const char *directory) {
    char path[PATH_ROOM], commit[80] = "";
    if (snprintf(path, sizeof path, "%s/refs/main", directory) >= (int)sizeof path) return NULL;
    Error none = {""};
    struct stat st;
    int fd = file_open(path, &st, &none);
    if (fd < 0) return NULL;
    ssize_t n = read(fd, commit, sizeof commit - 1);
    close(fd);
    commit[strcspn(commit, " \r\n")] = 0;
    if (n <= 0 || !*commit || *commit == '.' || strchr(commit, '/') ||
        snprintf(path, sizeof path, "%s/snapshots/%s", directory, commit) >= (int)sizeof path || !is_directory(path))
        return NULL;
    return strdup(path);
}

/* models--org--name: its snapshot as org/name, and each single file in it as org/name/stem. */
static int scan_hub(ModelList *m, const char *hub, Error *e) {
    DIR *d = opendir(hub);
    int status = 0;
    for (struct dirent *x; d && !status && (x = readdir(d));) {
        char path[PATH_ROOM], name[512];
        const char *org = x->d_name + 8, *dash = strncmp(x->d_name, "models--", 8) == 0 ? strstr(org, "--") : NULL;
        if (!dash || snprintf(path, sizeof path, "%s/%s", hub, x->d_name) >= (int)sizeof path) continue;
        int n = snprintf(name, sizeof name, "%.*s/%s/", (int)(dash - org), org, dash + 2);
        char *snapshot = models_snapshot(path);
        if (snapshot && exists(snapshot, "config.json")) status = add(m, name, (size_t)n - 1, snapshot, e);
        else if (snapshot) status = scan_directory(m, snapshot, name, false, e);
        free(snapshot);
    }
    if (d) closedir(d);
    return status;
}

static int by_name(const void *a, const void *b) {
    const FoundModel *x = a, *y = b;
    int order = strcasecmp(x->name, y->name);
    return order ? order : strcmp(x->name, y->name);
}

int models_scan(ModelList *m, Error *e) {
    const char *at = getenv("RUN_MODELS"), *hub = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    char path[PATH_ROOM];
    int status = 0;
    *m = (ModelList){0};
    while (at && *at && !status) {
        size_t n = strcspn(at, ":");
        if (n && snprintf(path, sizeof path, "%.*s", (int)n, at) < (int)sizeof path)
            status = scan_directory(m, path, "", true, e);
        at += n + (at[n] == ':');
    }
    if (hub) snprintf(path, sizeof path, "%s", hub);
    else if (home) snprintf(path, sizeof path, "%s/hub", home);
    else snprintf(path, sizeof path, "%s/.cache/huggingface/hub", getenv("HOME") ? getenv("HOME") : "");
    if (status || scan_hub(m, path, e)) {
        models_close(m);
        return -1;
    }
    if (m->n) qsort(m->list, (size_t)m->n, sizeof *m->list, by_name);
    return 0;
}

void models_close(ModelList *m) {
    for (int i = 0; i < m->n; i++) {
        free(m->list[i].name);
        free(m->list[i].path);
    }
    free(m->list);
    *m = (ModelList){0};
}

static bool matches(const char *name, const char *wanted, int how) {
    if (how == 0) return strcasecmp(name, wanted) == 0;
    return how == 1 ? strncasecmp(name, wanted, strlen(wanted)) == 0 : strcasestr(name, wanted) != NULL;
}

int models_find(char **path, const char *name, Error *e) {
    ModelList m;
    *path = NULL;
    if (!*name || models_scan(&m, e)) return *name ? -1 : 0;
    int status = 0;
    for (int how = 0; how < 3 && !*path && !status; how++) {
        const FoundModel *first = NULL, *second = NULL;
        for (int i = 0; i < m.n; i++) {
            if (!matches(m.list[i].name, name, how)) continue;
            if (first && !second) second = &m.list[i];
            if (!first) first = &m.list[i];
        }
        if (second)
            status = fail(e, "%s: expected the name of one model, found %.80s and %.80s (see -m models)", name,
                          first->name, second->name);
        else if (first && !(*path = strdup(first->path))) status = fail(e, "models: memory: expected some, found none");
    }
    models_close(&m);
    return status;
}
