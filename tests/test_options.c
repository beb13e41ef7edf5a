/* Tests of src/gen/options.c: every kind of flag, and every kind of mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/options.h"

#include <cmocka.h> /* last: it makes a macro of fail */

/* Splits a line at spaces and parses it. */
static int parse(Options *o, const char *line, Error *e) {
    static char text[512];
    char *argv[32] = {"run"};
    int argc = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *at = strtok(text, " "); at && argc < 32; at = strtok(NULL, " ")) argv[argc++] = at;
    e->text[0] = 0;
    return options_parse(o, argc, argv, e);
}

/* Parses another line into o. */
static int again(Options *o, const char *line, Error *e) {
    options_close(o);
    return parse(o, line, e);
}

static void test_good(void **state) {
    (void)state;
    Options o = {0};
    Error e;
    assert_int_equal(again(&o, "m.bin", &e), 0);
    assert_string_equal(o.mode, "generate");
    assert_true(o.sampler.temperature == 1 && o.sampler.top_p == 0.9f && !o.seed_given);
    assert_int_equal(again(&o, "-t 0.5 m.bin -p 0.25 -s 0 -n 7 -i hi -z tok -m chat -y sys", &e), 0);
    assert_true(o.sampler.temperature == 0.5f && o.sampler.top_p == 0.25f && o.seed_given && o.sampler.seed == 0);
    assert_int_equal(o.steps, 7);
    assert_string_equal(o.checkpoint, "m.bin");
    assert_string_equal(o.prompt, "hi");
    assert_string_equal(o.tokenizer, "tok");
    assert_string_equal(o.system, "sys");
    assert_int_equal(again(&o,
                           "m --temperature=0 --top-k 40 --min-p=0.1 --stop a --stop=b --tokens 1,2,3 --seed "
                           "18446744073709551615 --kv-type q8_0 --json --rope-scaling=yarn --rope-theta 1e6",
                           &e),
                     0);
    assert_int_equal(o.sampler.top_k, 40);
    assert_int_equal(o.n_stop, 2);
    assert_string_equal(o.stop[1], "b");
    assert_int_equal(o.n_tokens, 3);
    assert_int_equal(o.tokens[2], 3);
    char *spaced[] = {"run", "m", "--tokens", "4 5  6"};
    options_close(&o);
    assert_int_equal(options_parse(&o, 4, spaced, &e), 0);
    assert_true(o.n_tokens == 3 && o.tokens[0] == 4 && o.tokens[2] == 6);
    options_close(&o);
    assert_int_equal(
        again(&o, "m --seed 18446744073709551615 --kv-type q8_0 --json --rope-scaling=yarn --rope-theta 1e6", &e), 0);
    assert_true(o.sampler.seed == UINT64_MAX && o.kv_type == KV_Q8_0 && o.json);
    assert_true(o.rope_scaling == ROPE_SCALING_YARN && o.rope_theta == 1e6);
    options_close(&o);
    assert_int_equal(
        again(&o, "m --logit-bias 13-1.5 --ban 4,5 --samplers temperature;top_k --dry-sequence-breaker none", &e), 0);
    assert_true(o.n_bias == 3 && o.bias[0].id == 13 && o.bias[0].bias == -1.5f && o.bias[2].id == 5);
    assert_true(o.sampler.n_order == 2 && o.sampler.order[1] == SAMPLER_TOP_K && o.n_breaker == 0);
    assert_int_equal(again(&o, "m -m perplexity --decode --break v-rotated", &e), 0);
    assert_true(o.decode && o.mistake == MISTAKE_V_ROTATED);
    assert_int_equal(again(&o, "m -m bench -P 0 -d 128", &e), 0);
    assert_true(o.bench_runs == 5 && o.bench_prefill == 0 && o.bench_depth == 128);
    if (mode_find("bench")) { /* -r is a number there, a file elsewhere */
        assert_int_equal(again(&o, "m -m bench -r 3", &e), 0);
        assert_int_equal(o.bench_runs, 3);
        assert_int_equal(again(&o, "m -m bench -r often", &e), -1);
        assert_non_null(strstr(e.text, "runs"));
        assert_int_equal(again(&o, "m -r 3 -m bench", &e), 0);
        assert_int_equal(o.bench_runs, 3);
    }
    assert_int_equal(again(&o, "m -s -1", &e), 0);
    assert_true(o.sampler.seed == UINT64_MAX);
    assert_int_equal(again(&o, "-- -odd-name.bin", &e), 0);
    assert_string_equal(o.checkpoint, "-odd-name.bin");
    assert_int_equal(again(&o, "--help", &e), 0);
    assert_true(o.help);
    options_close(&o);
}

static void test_bad(void **state) {
    (void)state;
    static const struct {
        const char *line, *names; /* what the message must name */
    } bad[] = {
        {"", "CHECKPOINT"},
        {"a b", "second"},
        {"m --nonsense", "--nonsense"},
        {"m --csv", "--csv"},
        {"m --break everything", "v-rotated"},
        {"m -m convert --break v-rotated", "--break"},
        {"m -y system", "--system: expected -m chat, found -m generate"},
        {"m -m bench --stop x", "--stop"},
        {"m --kv-heads 2", "--kv-heads: expected -m convert"},
        {"m -m verify --kv-type q8_0", "--kv-type"},
        {"m -m info -i text", "--prompt"},
        {"m -i -n 3", "expected a value, found -n"},
        {"m --promt x", "--prompt?"},
        {"m -i a --tokens 1", "--tokens"},
        {"m -e", "--escape"},
        {"m --logprobs 3", "--json"},
        {"m --json=rows", "lines"},
        {"m --mirostat 1", "mirostat"},
        {"m --logit-bias 5", "logit-bias"},
        {"m --logit-bias 5*2", "logit-bias"},
        {"m --ban 1,,2", "ban"},
        {"m --samplers top-k;magic", "samplers"},
        {"m -m bench --typical 0.5", "typical"},
        {"m -m info --json=lines", "-m generate"},
        {"m --precise=maybe", "on or off"},
        {"m --decode", "--decode"},
        {"m -m perplexity --protocol llamacpp --decode", "--decode"},
        {"m -k", "-k"},
        {"m -t", "-t"},
        {"m -t nan", "temperature"},
        {"m -t -1", "temperature"},
        {"m -t inf", "temperature"},
        {"m -t 1x", "temperature"},
        {"m -p 1.5", "top-p"},
        {"m -n -1", "steps"},
        {"m -n 2.5", "steps"},
        {"m -n 99999999999999999999", "steps"},
        {"m -j 0", "threads"},
        {"m -c -4", "ctx"},
        {"m --top-k=-2", "top-k"},
        {"m --repeat-penalty 0", "repeat-penalty"},
        {"m -s 18446744073709551616", "seed"},
        {"m -s twelve", "seed"},
        {"m --tokens 1,,2", "tokens"},
        {"m --tokens 1,-2", "tokens"},
        {"m --tokens 1;2", "tokens"},
        {"m --stop=", "stop"},
        {"m --json=yes", "json"},
        {"m --kv-type f64", "kv-type"},
        {"m --rope-scaling magic", "rope-scaling"},
        {"m -m sing", "mode"},
        {"m --protocol other", "protocol"},
        {"m -i a -f b", "file"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Options o;
        Error e;
        if (parse(&o, bad[i].line, &e) == 0) fail_msg("'%s' was accepted", bad[i].line);
        if (!strstr(e.text, bad[i].names)) fail_msg("'%s': '%s' does not name %s", bad[i].line, e.text, bad[i].names);
        options_close(&o);
    }
}

/* The flags of the command line's contract are in --help, and whatever --help lists is parsed, in a mode that it is
 * listed for. */
static void test_help(void **state) {
    (void)state;
    static const char *const contract[] = {"mode",
                                           "prompt",
                                           "file",
                                           "steps",
                                           "temperature",
                                           "top-p",
                                           "top-k",
                                           "min-p",
                                           "repeat-penalty",
                                           "repeat-last",
                                           "stop",
                                           "seed",
                                           "tokenizer",
                                           "system",
                                           "chat-template",
                                           "threads",
                                           "ctx",
                                           "output",
                                           "kv-type",
                                           "rope-theta",
                                           "rope-scaling",
                                           "rope-factor",
                                           "rope-original-ctx",
                                           "rope-pairing",
                                           "tokens",
                                           "json",
                                           "no-echo",
                                           "quiet",
                                           "color",
                                           "version",
                                           "help",
                                           "no-special",
                                           "no-bos",
                                           "all",
                                           "protocol",
                                           "head-dim",
                                           "seq-len",
                                           "x",
                                           "pos",
                                           "reference",
                                           "type",
                                           "escape",
                                           "precise",
                                           "logprobs",
                                           "runs",
                                           "depth",
                                           "bench-prompt",
                                           "break",
                                           "check"};
    bool listed[sizeof contract / sizeof *contract] = {false};
    for (const Mode *m = modes; m->name; m++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        options_help(out, "run", m);
        fclose(out);
        int n_flags = 0;
        char *at = text;
        for (char *line; (line = strsep(&at, "\n"));) {
            char name[40], brief[4], args[120];
            if (sscanf(line, " --%39[a-z-]", name) != 1 && sscanf(line, " %3s --%39[a-z-]", brief, name) != 2) continue;
            n_flags++;
            for (size_t i = 0; i < sizeof contract / sizeof *contract; i++) listed[i] |= strcmp(contract[i], name) == 0;
            Options o;
            Error e = {0};
            snprintf(args, sizeof args, "m -m %s --%s=?", m->name, name);
            parse(&o, args, &e); /* no flag takes this value, or any text is one: but it is known, and used */
            if (strstr(e.text, "unknown") || strstr(e.text, "does not use"))
                fail_msg("'%s', which --help %s lists: %s", args, m->name, e.text);
            options_close(&o);
        }
        assert_true(n_flags > 5);
        free(text);
    }
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++)
        if (!listed[i]) fail_msg("--help lists no --%s", contract[i]);
}

static void test_environment(void **state) {
    (void)state;
    Options o = {0};
    Error e;
    setenv("RUN_CPU", "bogus", 1);
    assert_int_equal(again(&o, "m", &e), -1);
    assert_non_null(strstr(e.text, "RUN_CPU: expected ref"));
    setenv("RUN_CPU", "ref", 1);
    assert_int_equal(again(&o, "m --color", &e), 0);
    assert_true(o.kv_type == KV_F32 && o.color && o.precise == SWITCH_OFF);
    unsetenv("RUN_CPU");
    setenv("NO_COLOR", "1", 1);
    assert_int_equal(again(&o, "m --color -m logits", &e), -1);
    assert_int_equal(again(&o, "m --color", &e), 0);
    assert_false(o.color);
    unsetenv("NO_COLOR");
    assert_int_equal(again(&o, "m -m logits", &e), 0);
    assert_true(o.precise == SWITCH_ON);
    assert_int_equal(again(&o, "m -m logits --precise=off", &e), 0);
    assert_true(o.precise == SWITCH_OFF);
    options_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_help),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
