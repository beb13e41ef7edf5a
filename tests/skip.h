/* skip - a test that cannot run here says why; the runner counts tests with one reason as one. After cmocka.h. */
#pragma once
#include <stdio.h>

#define SKIP(...) (printf("SKIP: " __VA_ARGS__), printf("\n"), skip())

#define NO_BANK    "no ../shared"
#define NO_SMOLLM2 "no SmolLM2 (make smollm2)"
