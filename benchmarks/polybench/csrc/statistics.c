/* Statistics of a table whose columns i are variables and whose rows k are observations; the table is changed. */
#include "polybench.h"

#include <math.h>

/* A variable that varies less than this is left as it is. */
#define LEAST_DEVIATION 0.1

static void find_means(size_t nk, size_t ni, double data[restrict nk][ni], double *restrict mean)
{
    for (size_t i = 0; i < ni; i++) {
        double sum = 0;
        for (size_t k = 0; k < nk; k++)
            sum += data[k][i];
        mean[i] = sum / (double)nk;
    }
}

static void find_deviations(size_t nk, size_t ni, double data[restrict nk][ni], const double *restrict mean,
                            double *restrict deviation)
{
    for (size_t i = 0; i < ni; i++) {
        double sum = 0;
        for (size_t k = 0; k < nk; k++) {
            const double apart = data[k][i] - mean[i];
            sum += apart * apart;
        }
        deviation[i] = sqrt(sum / (double)nk);
        if (deviation[i] <= LEAST_DEVIATION)
            deviation[i] = 1;
    }
}

static double of_columns(size_t nk, size_t ni, double data[nk][ni], size_t i, size_t j)
{
    double sum = 0;
    for (size_t k = 0; k < nk; k++)
        sum += data[k][i] * data[k][j];
    return sum;
}

/* corr[i][j] between the variables i and j; the table is centred and reduced. */
void polybench_correlation(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nk = p->size[2];
    double (*data)[ni] = p->array[0], (*corr)[ni] = p->array[1], *mean = p->array[2], *deviation = p->array[3];
    const double root = sqrt((double)nk);
    find_means(nk, ni, data, mean);
    find_deviations(nk, ni, data, mean, deviation);
    for (size_t k = 0; k < nk; k++)
        for (size_t i = 0; i < ni; i++)
            data[k][i] = (data[k][i] - mean[i]) / (root * deviation[i]);
    for (size_t i = 0; i < ni; i++) {
        corr[i][i] = 1;
        for (size_t j = i + 1; j < ni; j++)
            corr[i][j] = corr[j][i] = of_columns(nk, ni, data, i, j);
    }
}

/* cov[i][j] of the variables i and j, unbiased, which takes two rows; the table is centred. */
void polybench_covariance(const struct polybench_problem *p)
{
    const size_t ni = p->size[0], nk = p->size[2];
    double (*data)[ni] = p->array[0], (*cov)[ni] = p->array[1], *mean = p->array[2];
    find_means(nk, ni, data, mean);
    for (size_t k = 0; k < nk; k++)
        for (size_t i = 0; i < ni; i++)
            data[k][i] -= mean[i];
    for (size_t i = 0; i < ni; i++)
        for (size_t j = i; j < ni; j++)
            cov[i][j] = cov[j][i] = of_columns(nk, ni, data, i, j) / ((double)nk - 1);
}
