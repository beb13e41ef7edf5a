# ./run-mpi: the release program whose ranks share a model (mpirun -n 4 ./run-mpi MODEL ...). Open MPI's compiler wrapper;
# src/dist/mpi.c instead of none.c.
OPT      := -O3 -g
HARDEN   += -D_FORTIFY_SOURCE=2
CC       := OMPI_CC="$(CC)" mpicc
LEFT_OUT := src/lite/% src/dist/none.c
