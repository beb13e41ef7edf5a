/* What the small program is made of: nothing but the C library. */
#include "kernels/kernels.h"
#include "modes/modes.h"

const char program_version[] = PROGRAM_VERSION;

void version_print(FILE *out, const char *program) {
    fprintf(out, "%s %s, small\nkernels: %s of", program, PROGRAM_VERSION, kernels_best()->name);
    for (const KernelLevel *l = kernel_levels; l->kernels; l++) fprintf(out, " %s", l->kernels->name);
    fputs("\nlibraries: none\n", out);
}
