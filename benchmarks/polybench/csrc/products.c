/* Products of matrices and vectors.
 *
 * The order of loops is PolyBench's, strides down a column included: it is what makes one product unlike another
 * as a load, and no place for tuning. */
#include "polybench.h"

static const double alpha = POLYBENCH_ALPHA, beta = POLYBENCH_BETA;

/* y += factor x */
static void add_scaled(size_t n, double *restrict y, double factor, const double *restrict x)
{
    for (size_t j = 0; j < n; j++)
        y[j] += factor * x[j];
}

/* A row times what lies `stride` apart: 1 for a row, the row's length for a column. */
static double dot(size_t n, const double *row, const double *other, size_t stride)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += row[k] * other[k * stride];
    return sum;
}

/* C = A B */
static void multiply(size_t ni, size_t nj, size_t nk, double *restrict c, const double *a, const double *b)
{
    for (size_t i = 0; i < ni; i++)
        for (size_t j = 0; j < nj; j++)
            c[i * nj + j] = dot(nk, a + i * nk, b + j, nj);
}

/* C = alpha A B + beta C */
void polybench_gemm(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nj = p->size[1], nk = p->size[2];
    double (*c)[nj] = p->array[0], (*a)[nk] = p->array[1], (*b)[nj] = p->array[2];
    for (size_t i = 0; i < ni; i++) {
        for (size_t j = 0; j < nj; j++)
            c[i][j] *= beta;
        for (size_t k = 0; k < nk; k++)
            add_scaled(nj, c[i], alpha * a[i][k], b[k]);
    }
}

/* T = alpha A B, D = T C + beta D */
void polybench_mm2(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nj = p->size[1], nk = p->size[2], nl = p->size[3];
    double (*t)[nj] = p->array[0], (*a)[nk] = p->array[1], *b = p->array[2], *c = p->array[3];
    double (*d)[nl] = p->array[4];
    for (size_t i = 0; i < ni; i++)
        for (size_t j = 0; j < nj; j++)
            t[i][j] = alpha * dot(nk, a[i], b + j, nj);
    for (size_t i = 0; i < ni; i++)
        for (size_t l = 0; l < nl; l++)
            d[i][l] = beta * d[i][l] + dot(nj, t[i], c + l, nl);
}

/* E = A B, F = C D, G = E F */
void polybench_mm3(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nj = p->size[1], nk = p->size[2], nl = p->size[3], nm = p->size[4];
    double *e = p->array[0], *f = p->array[3], *g = p->array[6];
    multiply(ni, nj, nk, e, p->array[1], p->array[2]);
    multiply(nj, nl, nm, f, p->array[4], p->array[5]);
    multiply(ni, nl, nj, g, e, f);
}

/* C = alpha A B + beta C, A symmetric and read from its lower triangle */
void polybench_symm(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nj = p->size[1];
    double (*restrict c)[nj] = p->array[0], (*restrict a)[ni] = p->array[1], (*restrict b)[nj] = p->array[2];
    for (size_t i = 0; i < ni; i++)
        for (size_t j = 0; j < nj; j++) {
            const double scaled = alpha * b[i][j];
            double below = 0;
            for (size_t k = 0; k < i; k++) {
                c[k][j] += scaled * a[i][k];
                below += b[k][j] * a[i][k];
            }
            c[i][j] = beta * c[i][j] + scaled * a[i][i] + alpha * below;
        }
}

/* C = alpha A A' + beta C, in the lower triangle of C only */
void polybench_syrk(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nk = p->size[2];
    double (*restrict c)[ni] = p->array[0], (*restrict a)[nk] = p->array[1];
    for (size_t i = 0; i < ni; i++) {
        for (size_t j = 0; j <= i; j++)
            c[i][j] *= beta;
        for (size_t k = 0; k < nk; k++) {
            const double scaled = alpha * a[i][k];
            for (size_t j = 0; j <= i; j++)
                c[i][j] += scaled * a[j][k];
        }
    }
}

/* B = alpha A' B, A lower triangular with a diagonal of ones that is not read */
void polybench_trmm(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nj = p->size[1];
    double (*restrict a)[ni] = p->array[0], (*restrict b)[nj] = p->array[1];
    for (size_t i = 0; i < ni; i++)
        for (size_t j = 0; j < nj; j++) {
            double sum = b[i][j];
            for (size_t k = i + 1; k < ni; k++)
                sum += a[k][i] * b[k][j];
            b[i][j] = alpha * sum;
        }
}

/* A += u1 v1' + u2 v2', x += beta A' y + z, w += alpha A x */
void polybench_gemver(const struct polybench_problem *p)
{
    const size_t n = p->size[0];
    double (*restrict a)[n] = p->array[0];
    const double *restrict u1 = p->array[1], *restrict v1 = p->array[2];
    const double *restrict u2 = p->array[3], *restrict v2 = p->array[4];
    double *restrict w = p->array[5], *restrict x = p->array[6];
    const double *restrict y = p->array[7], *restrict z = p->array[8];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            a[i][j] += u1[i] * v1[j] + u2[i] * v2[j];
    for (size_t i = 0; i < n; i++)
        x[i] += beta * dot(n, y, &a[0][i], n) + z[i];
    for (size_t i = 0; i < n; i++)
        w[i] += alpha * dot(n, a[i], x, 1);
}

/* x1 += A y1, x2 += A' y2 */
void polybench_mvt(const struct polybench_problem *p)
{
    const size_t n = p->size[0];
    double *restrict x1 = p->array[0], *restrict x2 = p->array[1];
    const double *y1 = p->array[2], *y2 = p->array[3];
    double (*a)[n] = p->array[4];
    for (size_t i = 0; i < n; i++)
        x1[i] += dot(n, a[i], y1, 1);
    for (size_t i = 0; i < n; i++)
        x2[i] += dot(n, y2, &a[0][i], n);
}

/* t = A x, y = A' t */
void polybench_atax(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nj = p->size[1];
    double (*a)[nj] = p->array[0], *x = p->array[1], *y = p->array[2], *t = p->array[3];
    for (size_t j = 0; j < nj; j++)
        y[j] = 0;
    for (size_t i = 0; i < ni; i++) {
        t[i] = dot(nj, a[i], x, 1);
        add_scaled(nj, y, t[i], a[i]);
    }
}

/* s = A' r, q = A p */
void polybench_bicg(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nj = p->size[1];
    double (*restrict a)[nj] = p->array[0], *restrict s = p->array[1], *restrict q = p->array[2];
    const double *restrict from_right = p->array[3], *restrict from_left = p->array[4];
    for (size_t j = 0; j < nj; j++)
        s[j] = 0;
    for (size_t i = 0; i < ni; i++) {
        double sum = 0;
        for (size_t j = 0; j < nj; j++) {
            s[j] += from_left[i] * a[i][j];
            sum += a[i][j] * from_right[j];
        }
        q[i] = sum;
    }
}
