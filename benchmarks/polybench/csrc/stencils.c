/* Stencils: each point from its neighbours, step by step. A grid without inner points stays as it is. */
#include "polybench.h"

static void average_1d(size_t n, double *restrict to, const double *restrict from)
{
    for (size_t i = 1; i + 1 < n; i++)
        to[i] = 0.33333 * (from[i - 1] + from[i] + from[i + 1]);
}

/* Each inner point the mean of three, from A to B and back. */
void polybench_jacobi1d(const struct polybench_problem *p)
{
    for (size_t step = 0; step < p->steps; step++) {
        average_1d(p->size[0], p->array[1], p->array[0]);
        average_1d(p->size[0], p->array[0], p->array[1]);
    }
}

static void average_2d(size_t n, double to[restrict n][n], double from[restrict n][n])
{
    for (size_t i = 1; i + 1 < n; i++)
        for (size_t j = 1; j + 1 < n; j++)
            to[i][j] = 0.2 * (from[i][j] + from[i][j - 1] + from[i][j + 1] + from[i + 1][j] + from[i - 1][j]);
}

/* Each inner point the mean of five, from A to B and back. */
void polybench_jacobi2d(const struct polybench_problem *p)
{
    for (size_t step = 0; step < p->steps; step++) {
        average_2d(p->size[0], p->array[1], p->array[0]);
        average_2d(p->size[0], p->array[0], p->array[1]);
    }
}

static void step_fields(size_t ni, size_t nj, double ex[restrict ni][nj], double ey[restrict ni][nj],
                        double hz[restrict ni][nj])
{
    for (size_t i = 1; i < ni; i++)
        for (size_t j = 0; j < nj; j++)
            ey[i][j] -= 0.5 * (hz[i][j] - hz[i - 1][j]);
    for (size_t i = 0; i < ni; i++)
        for (size_t j = 1; j < nj; j++)
            ex[i][j] -= 0.5 * (hz[i][j] - hz[i][j - 1]);
    for (size_t i = 0; i + 1 < ni; i++)
        for (size_t j = 0; j + 1 < nj; j++)
            hz[i][j] -= 0.7 * (ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]);
}

/* Finite differences in time: two electric fields and a magnetic one, driven at one edge. */
void polybench_fdtd2d(const struct polybench_problem *p)
{
    const size_t nj = p->size[1];
    const double *drive = p->array[3];
    for (size_t step = 0; step < p->steps; step++) {
        double *edge = p->array[1];
        for (size_t j = 0; j < nj; j++)
            edge[j] = drive[step];
        step_fields(p->size[0], nj, p->array[0], p->array[1], p->array[2]);
    }
}

/* Each inner point the mean of nine, in place: four of them are new already. */
void polybench_seidel2d(const struct polybench_problem *p)
{
    const size_t n = p->size[0];
    double (*a)[n] = p->array[0];
    for (size_t step = 0; step < p->steps; step++)
        for (size_t i = 1; i + 1 < n; i++)
            for (size_t j = 1; j + 1 < n; j++)
                a[i][j] = (a[i - 1][j - 1] + a[i - 1][j] + a[i - 1][j + 1] + a[i][j - 1] + a[i][j] + a[i][j + 1] +
                           a[i + 1][j - 1] + a[i + 1][j] + a[i + 1][j + 1]) /
                          9.0;
}

/* Half a step of diffusion: implicit along one axis, with weights -half, 1 + 2 half, -half, explicit along the other. */
struct halves {
    double implicit, explicit;
};

/* The way forward of a tridiagonal system: p and q of a point from those of the one before. */
static void eliminate(struct halves h, const double across[3], const double before[2], double now[2])
{
    const double pivot = (1 + 2 * h.implicit) - h.implicit * before[0];
    now[0] = h.implicit / pivot;
    now[1] =
        (h.explicit * across[0] + (1 - 2 * h.explicit) * across[1] + h.explicit * across[2] + h.implicit * before[1]) /
        pivot;
}

/* From u to v: each column of v is a system whose right side lies along the row of u, both ends 1. */
static void sweep_columns(size_t n, struct halves h, double u[restrict n][n], double v[restrict n][n],
                          double p[restrict n][n], double q[restrict n][n])
{
    for (size_t i = 1; i + 1 < n; i++) {
        double before[2] = {0, 1}, now[2];
        v[0][i] = 1, p[i][0] = before[0], q[i][0] = before[1];
        for (size_t j = 1; j + 1 < n; j++) {
            eliminate(h, (const double[]){u[j][i - 1], u[j][i], u[j][i + 1]}, before, now);
            p[i][j] = before[0] = now[0], q[i][j] = before[1] = now[1];
        }
        v[n - 1][i] = 1;
        for (size_t j = n - 2; j > 0; j--)
            v[j][i] = p[i][j] * v[j + 1][i] + q[i][j];
    }
}

/* From v to u: the same for each row of u. */
static void sweep_rows(size_t n, struct halves h, double u[restrict n][n], double v[restrict n][n],
                       double p[restrict n][n], double q[restrict n][n])
{
    for (size_t i = 1; i + 1 < n; i++) {
        double before[2] = {0, 1}, now[2];
        u[i][0] = 1, p[i][0] = before[0], q[i][0] = before[1];
        for (size_t j = 1; j + 1 < n; j++) {
            eliminate(h, (const double[]){v[i - 1][j], v[i][j], v[i + 1][j]}, before, now);
            p[i][j] = before[0] = now[0], q[i][j] = before[1] = now[1];
        }
        u[i][n - 1] = 1;
        for (size_t j = n - 2; j > 0; j--)
            u[i][j] = p[i][j] * u[i][j + 1] + q[i][j];
    }
}

/* Alternating direction implicit: a heat equation on the unit square for one unit of time, walls at 1. */
void polybench_adi(const struct polybench_problem *problem)
{
    const size_t n = problem->size[0];
    void *u = problem->array[0], *v = problem->array[1], *p = problem->array[2], *q = problem->array[3];
    const double per_step = (double)n * (double)n / (double)problem->steps;
    const struct halves down = {.implicit = per_step, .explicit = per_step / 2};
    const struct halves along = {.implicit = per_step / 2, .explicit = per_step};
    for (size_t step = 0; step < problem->steps; step++) {
        sweep_columns(n, down, u, v, p, q);
        sweep_rows(n, along, u, v, p, q);
    }
}
