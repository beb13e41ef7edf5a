/* What the program is made of. */
#include <cjson/cJSON.h>
#include <oniguruma.h>
#include <utf8proc.h>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "modes/modes.h"

const char program_version[] = PROGRAM_VERSION;

void version_print(FILE *out, const char *program) {
    fprintf(out, "%s %s\nkernels: %s of", program, PROGRAM_VERSION, kernels_best()->name);
    for (const KernelLevel *l = kernel_levels; l->kernels; l++) fprintf(out, " %s", l->kernels->name);
    fprintf(out, "\nlibraries: cJSON %s, Oniguruma %s, utf8proc %s, libsentencepiece, libedit; ranks: %s\n",
            cJSON_Version(), onig_version(), utf8proc_version(), comm_name());
}
