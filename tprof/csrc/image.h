/* What the linker says of a loaded library, and its table of names. */
#ifndef TPROF_IMAGE_H
#define TPROF_IMAGE_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tprof_image {
    uintptr_t base, start, end;
    const ElfW(Dyn) * dynamic;
    uintptr_t code_start, code_end;
    uintptr_t protected_start, protected_end; /* RELRO, whole pages */
    bool is_open; /* the protected part is writable for the moment */
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *names; /* the table of hashes of names */
    uintptr_t calls, others; /* tables of entries */
    size_t call_bytes, other_bytes;
};

struct tprof_image tprof_image_of(const struct dl_phdr_info *info);
/* Look a name up as the linker does, in the library's own table only. */
bool tprof_image_defines(const struct tprof_image *image, const char *name);

#endif
