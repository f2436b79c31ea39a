/* `lock` guards everything here; only the allocator is called while it is held. */
#include "definitions.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tprof_definitions *interpreters;
static uint32_t next_number;
static char written[PATH_MAX]; /* the table */
static uint32_t lost;

void tprof_definitions_before_fork(void)
{
    pthread_mutex_lock(&lock);
}

void tprof_definitions_after_fork_in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* Definitions of other interpreters stay listed: a fork copies their memory, though not their threads. */
void tprof_definitions_after_fork_in_child(void)
{
    written[0] = '\0';
    lost = 0;
    pthread_mutex_init(&lock, NULL);
}

void tprof_definitions_list(struct tprof_definitions *of)
{
    pthread_mutex_lock(&lock);
    of->listed = true;
    of->next = interpreters;
    if (interpreters != NULL)
        interpreters->previous = of;
    interpreters = of;
    pthread_mutex_unlock(&lock);
}

void tprof_definitions_unlist(struct tprof_definitions *of)
{
    if (!of->listed)
        return;
    pthread_mutex_lock(&lock);
    if (of->previous != NULL)
        of->previous->next = of->next;
    else
        interpreters = of->next;
    if (of->next != NULL)
        of->next->previous = of->previous;
    of->listed = false;
    pthread_mutex_unlock(&lock);
    tprof_definitions_free(of->first);
    of->first = NULL;
}

void tprof_define(struct tprof_definitions *of, struct tprof_definition *definition, char table[PATH_MAX])
{
    pthread_mutex_lock(&lock);
    definition->number = next_number++;
    definition->next = of->first;
    of->first = definition;
    memcpy(table, written, sizeof written);
    pthread_mutex_unlock(&lock);
}

static bool copy_text(struct tprof_text *to, const struct tprof_text *from)
{
    *to = (struct tprof_text){NULL, from->length};
    if (from->bytes == NULL)
        return true;
    to->bytes = malloc(from->length + 1);
    if (to->bytes != NULL)
        memcpy(to->bytes, from->bytes, from->length);
    return to->bytes != NULL;
}

static bool copy_all(const struct tprof_definition *from, struct tprof_definition **to)
{
    for (; from != NULL; from = from->next) {
        struct tprof_definition *copy = malloc(sizeof *copy);
        if (copy == NULL)
            return false;
        *copy = *from;
        copy->next = *to;
        *to = copy;
        const bool has_name = copy_text(&copy->name, &from->name);
        if (!copy_text(&copy->file, &from->file) || !has_name)
            return false;
    }
    return true;
}

bool tprof_table_begin(const char *path, const struct tprof_definitions *own, struct tprof_definition **others)
{
    bool copied = strlen(path) < sizeof written;
    *others = NULL;
    pthread_mutex_lock(&lock);
    for (const struct tprof_definitions *one = interpreters; one != NULL && copied; one = one->next)
        if (one != own)
            copied = copy_all(one->first, others);
    if (copied) {
        strcpy(written, path);
        lost = 0;
    }
    pthread_mutex_unlock(&lock);
    if (!copied) {
        tprof_definitions_free(*others);
        *others = NULL;
    }
    return copied;
}

void tprof_definitions_free(struct tprof_definition *first)
{
    while (first != NULL) {
        struct tprof_definition *next = first->next;
        free(first->name.bytes);
        free(first->file.bytes);
        free(first);
        first = next;
    }
}

uint32_t tprof_table_end(void)
{
    pthread_mutex_lock(&lock);
    const uint32_t count = lost;
    written[0] = '\0';
    pthread_mutex_unlock(&lock);
    return count;
}

void tprof_table_lost(void)
{
    pthread_mutex_lock(&lock);
    lost++;
    pthread_mutex_unlock(&lock);
}
