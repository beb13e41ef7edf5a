/* How much memory and CPU time is left, read from folders that look like /proc and /sys; and what is done when memory
 * is too little. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/cgroup.h"
#include "base/memory.h"
#include "model.h"

#include <cmocka.h> /* last: it makes a macro of fail */

#include "tests/skip.h"

static char root[] = "/tmp/test_limits.XXXXXX";

static void put(const char *path, const char *text) {
    char command[512], file[256];
    snprintf(file, sizeof file, "%s%s", root, path);
    snprintf(command, sizeof command, "mkdir -p $(dirname %s)", file);
    assert_int_equal(system(command), 0);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int fresh(void **state) {
    (void)state;
    strcpy(root + sizeof root - 7, "XXXXXX");
    if (!mkdtemp(root)) return -1;
    put("/proc/meminfo", "MemTotal:       16000000 kB\nMemFree:         1000 kB\nMemAvailable:    8000 kB\n");
    return 0;
}

static int remove_all(void **state) {
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void test_machine(void **state) {
    (void)state;
    assert_int_equal(memory_available(root), 8000 << 10);
    put("/proc/self/cgroup", "0::/\n"); /* no limit anywhere */
    assert_int_equal(memory_available(root), 8000 << 10);
    assert_int_equal(memory_available("/nowhere"), SIZE_MAX);
}

static void test_memory_of_cgroup_2(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/memory.max", "5000000\n"); /* the outer group's limit counts too */
    put("/sys/fs/cgroup/a/memory.current", "3000000\n");
    assert_int_equal(memory_available(root), 2000000);
    put("/sys/fs/cgroup/a/memory.stat", "anon 100\nfile 900\nactive_file 500000\ninactive_file 250000\n");
    assert_int_equal(memory_available(root), 2750000);
    put("/sys/fs/cgroup/a/b/memory.max", "1000000\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1000001\n"); /* over its limit */
    assert_int_equal(memory_available(root), 0);
}

/* In a container the group's name is that of the host, and the mount shows the group itself. */
static void test_cgroup_of_a_container(void **state) {
    (void)state;
    put("/proc/self/cgroup", "0::/docker/0123\n");
    put("/sys/fs/cgroup/memory.max", "4000000\n");
    put("/sys/fs/cgroup/memory.current", "1000000\n");
    assert_int_equal(memory_available(root), 3000000);
}

static void test_memory_of_cgroup_1(void **state) {
    (void)state;
    put("/proc/self/cgroup", "9:name=systemd:/x\n4:cpuacct,memory:/x/y\n1:cpu:/z\n0::/\n");
    put("/sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "6000000\n");
    put("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "4000000\n");
    put("/sys/fs/cgroup/memory/x/memory.stat", "cache 7\ntotal_inactive_file 1000\ntotal_active_file 2000\n");
    assert_int_equal(memory_available(root), 2003000);
}

static void test_cpus_of_cgroup_2(void **state) {
    (void)state;
    assert_int_equal(cgroup_cpus(root), SIZE_MAX); /* no group is known */
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(cgroup_cpus(root), SIZE_MAX);
    put("/sys/fs/cgroup/a/cpu.max", "300000 100000\n"); /* the outer group's quota counts too */
    assert_int_equal(cgroup_cpus(root), 3);
    put("/sys/fs/cgroup/a/b/cpu.max", "75000 50000\n");
    assert_int_equal(cgroup_cpus(root), 2);
    put("/sys/fs/cgroup/cpu.max", "1000 100000\n"); /* a hundredth of one */
    assert_int_equal(cgroup_cpus(root), 1);
}

static void test_cpus_of_cgroup_1(void **state) {
    (void)state;
    put("/proc/self/cgroup", "5:cpuset:/z\n4:cpuacct:/z\n3:memory:/z\n2:cpuacct,cpu:/x/y\n0::/\n");
    put("/sys/fs/cgroup/cpu/z/cpu.cfs_quota_us", "100000\n"); /* a group of others */
    put("/sys/fs/cgroup/cpu/z/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_cpus(root), SIZE_MAX);
    put("/sys/fs/cgroup/cpu/x/y/cpu.cfs_quota_us", "400001\n");
    put("/sys/fs/cgroup/cpu/x/y/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cgroup_cpus(root), 5);
}

static void test_address_space(void **state) {
    (void)state;
    struct rlimit before, less;
    put("/proc/self/statm", "100 50 20 1 0 30 0\n");
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    less = (struct rlimit){(rlim_t)1 << 46, before.rlim_max}; /* larger than what sanitizers map */
    put("/proc/meminfo", "MemAvailable: 1000000000000 kB\n");
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    struct rlimit now;
    if (getrlimit(RLIMIT_AS, &now) != 0 || now.rlim_cur != less.rlim_cur) SKIP("no limits of memory");
    size_t left = memory_available(root);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_in_range(left, ((size_t)1 << 46) - 100 * 65536, ((size_t)1 << 46) - 100 * 4096);
}

static void test_state_too_large(void **state) {
    (void)state;
    Model m = {.config = {.dim = 8,
                          .hidden_dim = 8,
                          .n_layers = 4096,
                          .n_heads = 1,
                          .n_kv_heads = 1,
                          .head_dim = 8,
                          .vocab_size = 8,
                          .n_ctx = 1 << 26,
                          .pos = POS_LEARNED},
               .slice = {.n_heads = 1, .n_kv_heads = 1, .n_hidden = 8}};
    StateOptions o = {.n_ctx = 1 << 26, .n_batch = 1, .n_threads = 1, .kv_type = KV_F32};
    Error e = {""};
    assert_int_equal(state_fits(&m, &o, "x.gguf", &e), -1);
    assert_non_null(strstr(e.text, "x.gguf: memory: expected 16777")); /* 2 * 2^12 * 2^26 * 32 bytes = 16777216 MiB */
    assert_non_null(strstr(e.text, "MiB for a context of 67108864, found "));
    assert_non_null(strstr(e.text, "-c, --batch or --kv-type"));
    m.config.head_dim = 1 << 14; /* no size_t holds it */
    m.config.n_kv_heads = m.slice.n_kv_heads = 1 << 16;
    e.text[0] = 0;
    assert_int_equal(state_fits(&m, &o, "x.gguf", &e), -1);
    o.n_ctx = 16;
    m.config = (Config){.dim = 8,
                        .hidden_dim = 8,
                        .n_layers = 1,
                        .n_heads = 1,
                        .n_kv_heads = 1,
                        .head_dim = 8,
                        .vocab_size = 8,
                        .n_ctx = 16};
    e.text[0] = 0;
    assert_int_equal(state_fits(&m, &o, "x.gguf", &e), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_machine, fresh, remove_all),
        cmocka_unit_test_setup_teardown(test_memory_of_cgroup_2, fresh, remove_all),
        cmocka_unit_test_setup_teardown(test_cgroup_of_a_container, fresh, remove_all),
        cmocka_unit_test_setup_teardown(test_memory_of_cgroup_1, fresh, remove_all),
        cmocka_unit_test_setup_teardown(test_cpus_of_cgroup_2, fresh, remove_all),
        cmocka_unit_test_setup_teardown(test_cpus_of_cgroup_1, fresh, remove_all),
        cmocka_unit_test_setup_teardown(test_address_space, fresh, remove_all),
        cmocka_unit_test(test_state_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
