/* Called while the linker shows its libraries. */
#include "image.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

static struct tprof_image describe(const struct dl_phdr_info *info)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct tprof_image image = {.base = info->dlpi_addr, .start = UINTPTR_MAX};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uintptr_t start = image.base + part->p_vaddr, end = start + part->p_memsz;
        if (part->p_type == PT_LOAD && start < image.start)
            image.start = start;
        if (part->p_type == PT_LOAD && end > image.end)
            image.end = end;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && end - start > image.code_end - image.code_start) {
            image.code_start = start;
            image.code_end = end;
        }
        if (part->p_type == PT_DYNAMIC)
            image.dynamic = (const ElfW(Dyn) *)start;
        if (part->p_type == PT_GNU_RELRO) {
            image.protected_start = start & ~(page - 1);
            image.protected_end = end & ~(page - 1);
        }
    }
    return image;
}

/* Some linkers replace offsets in this table by addresses, some do not. */
static uintptr_t address_in(const struct tprof_image *image, const ElfW(Dyn) * entry)
{
    return entry->d_un.d_ptr < image->base ? image->base + entry->d_un.d_ptr : entry->d_un.d_ptr;
}

static void read_dynamic(struct tprof_image *image)
{
    for (const ElfW(Dyn) *entry = image->dynamic; entry != NULL && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            image->symbols = (const ElfW(Sym) *)address_in(image, entry);
        else if (entry->d_tag == DT_STRTAB)
            image->strings = (const char *)address_in(image, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            image->names = (const uint32_t *)address_in(image, entry);
        else if (entry->d_tag == DT_JMPREL)
            image->calls = address_in(image, entry);
        else if (entry->d_tag == DT_PLTRELSZ)
            image->call_bytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_RELA)
            image->others = address_in(image, entry);
        else if (entry->d_tag == DT_RELASZ)
            image->other_bytes = entry->d_un.d_val;
    }
}

bool tprof_image_defines(const struct tprof_image *image, const char *name)
{
    if (image->names == NULL || image->symbols == NULL || image->strings == NULL || image->names[0] == 0)
        return false;
    const uint32_t bucket_count = image->names[0], first = image->names[1], filter_words = image->names[2];
    const uint32_t *const buckets = (const uint32_t *)((const uintptr_t *)&image->names[4] + filter_words);
    const uint32_t *const chain = &buckets[bucket_count];
    uint32_t hash = 5381;
    for (const char *letter = name; *letter != '\0'; letter++)
        hash = hash * 33 + (unsigned char)*letter;
    for (uint32_t i = buckets[hash % bucket_count]; i >= first; i++) {
        const uint32_t other = chain[i - first];
        if ((other | 1) == (hash | 1) && strcmp(image->strings + image->symbols[i].st_name, name) == 0)
            return image->symbols[i].st_shndx != SHN_UNDEF;
        if ((other & 1) != 0)
            break;
    }
    return false;
}

struct tprof_image tprof_image_of(const struct dl_phdr_info *info)
{
    struct tprof_image image = describe(info);
    read_dynamic(&image);
    return image;
}
