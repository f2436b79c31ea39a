/* One polynomial kernel; polynomial.c includes this once for each precision and each kind of vectors, with
 *
 *   KERNEL        its name
 *   REAL          float or double
 *   VECTOR_BYTES  of one register
 *   CHAINS        polynomials evaluated side by side: enough to hide an addition's latency, few enough for the registers
 *   TARGET        what the processor must have
 *
 * Horner's rule on every number of a stream, p = x, then `degree` times p = p x + c, and all p are added up: 2 degree + 1
 * flops a number, each of which is read once. */
#define LANES (VECTOR_BYTES / (Py_ssize_t)sizeof(REAL))
#define SUMS 4

TARGET static double KERNEL(const void *stream, Py_ssize_t count, const void *coefficients, int degree)
{
    typedef REAL vector __attribute__((vector_size(VECTOR_BYTES)));
    typedef REAL unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(4), may_alias));
    const REAL *const data = stream, *const c = coefficients;
    vector sums[SUMS] = {{0}};
    Py_ssize_t i = 0;
    for (; i + CHAINS * LANES <= count; i += CHAINS * LANES) {
        vector x[CHAINS], p[CHAINS];
        UNROLL
        for (int k = 0; k < CHAINS; k++)
            p[k] = x[k] = *(const unaligned *)(data + i + k * LANES);
        for (int j = 0; j < degree; j++) {
            const vector added = (vector){0} + c[j];
            UNROLL
            for (int k = 0; k < CHAINS; k++)
                p[k] = p[k] * x[k] + added;
        }
        UNROLL
        for (int k = 0; k < CHAINS; k++)
            sums[k % SUMS] += p[k];
    }
    double total = 0;
    for (int k = 0; k < SUMS; k++)
        for (int lane = 0; lane < LANES; lane++)
            total += (double)sums[k][lane];
    for (; i < count; i++) {
        REAL p = data[i];
        for (int j = 0; j < degree; j++)
            p = p * data[i] + c[j];
        total += (double)p;
    }
    return total;
}

#undef LANES
#undef SUMS
#undef KERNEL
#undef REAL
#undef VECTOR_BYTES
#undef CHAINS
#undef TARGET
