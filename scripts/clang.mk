# What clang wants otherwise than gcc.
CONTRACT :=
SCHEDULE :=
WARN     += -Wno-missing-field-initializers # rows of tables leave the fields that are 0 out; gcc lets it be with names
WARN     += -Wno-pass-failed # `omp simd` is advice: a loop that clang cannot follow it in is no mistake
