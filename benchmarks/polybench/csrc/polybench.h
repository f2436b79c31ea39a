/* The kernels of PolyBench/C by their mathematics: what each works on, and that each runs without Python.
 *
 * Called by polybench_module.c from any thread, without the interpreter's lock. Arrays are row-major, do not overlap,
 * and have the shapes that polybench_module.c lists; each file says what its kernels compute. */
#ifndef TPROF_POLYBENCH_H
#define TPROF_POLYBENCH_H

#include <stddef.h>

#define POLYBENCH_DIMENSIONS 5
#define POLYBENCH_MOST_ARRAYS 9

/* PolyBench's factors, the same for every kernel that takes any. */
#define POLYBENCH_ALPHA 1.5
#define POLYBENCH_BETA 1.2

struct polybench_problem {
    size_t size[POLYBENCH_DIMENSIONS]; /* of the dimensions i, j, k, l, m */
    size_t steps;                      /* of time, where there is any */
    void *array[POLYBENCH_MOST_ARRAYS];
};

typedef void polybench_kernel(const struct polybench_problem *p);

polybench_kernel polybench_gemm, polybench_mm2, polybench_mm3, polybench_symm, polybench_syrk, polybench_trmm;
polybench_kernel polybench_gemver, polybench_mvt, polybench_atax, polybench_bicg;
polybench_kernel polybench_jacobi1d, polybench_jacobi2d, polybench_fdtd2d, polybench_seidel2d, polybench_adi;
polybench_kernel polybench_correlation, polybench_covariance;

#endif
