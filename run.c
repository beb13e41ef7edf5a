/* run - argv to mode; the only file that exits or writes to standard error. */
#include <stdio.h>

int main(void) {
    fprintf(stderr, "run: no mode is built yet\n");
    return 2;
}
