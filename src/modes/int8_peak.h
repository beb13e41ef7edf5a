/* int8_peak - what the int8 product could do at most: its instructions on registers alone, no memory, no scales. The
 * yardstick of quantized prefill in -m bench. Test: tests/test_bench.sh */
#pragma once

/* int8_peak - runs the instructions of the level ("avx2", "neondot", ...) `loops` times on the calling thread.
 * Returns the multiply-adds that were done; 0 where the level has no int8 product. */
double int8_peak(const char *level, long loops);
