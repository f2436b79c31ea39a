/* Looked up when the process runs: a package built for an older C library has these names on a newer one too. */
#include "processor.h"

#define NUMBER_AT 4 /* of cpu_id in the kernel's struct rseq */

ptrdiff_t tprof_processor_at;

void tprof_processor_find(void)
{
    const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
    const unsigned int *size = dlsym(RTLD_DEFAULT, "__rseq_size");
    if (offset != NULL && size != NULL && *size > 0)
        tprof_processor_at = *offset + NUMBER_AT;
}
