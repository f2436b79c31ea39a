#include "stacks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define WINDOW_BYTES 16384u
#define DESCRIPTION "{\"stacks\":\"python\"}"

static uint32_t place_of(const struct tprof_numbers *numbers, uint64_t key)
{
    uint32_t place = (uint32_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (numbers->capacity - 1);
    while (numbers->keys[place] != 0 && numbers->keys[place] != key)
        place = (place + 1) & (numbers->capacity - 1);
    return place;
}

static uint32_t find(const struct tprof_numbers *numbers, uint64_t key)
{
    if (numbers->capacity == 0)
        return TPROF_NO_STACK;
    const uint32_t place = place_of(numbers, key);
    return numbers->keys[place] == 0 ? TPROF_NO_STACK : numbers->values[place];
}

static bool grow(struct tprof_numbers *numbers)
{
    struct tprof_numbers larger = {.count = numbers->count,
                                   .capacity = numbers->capacity == 0 ? 1024 : 2 * numbers->capacity};
    larger.keys = calloc(larger.capacity, sizeof *larger.keys);
    larger.values = calloc(larger.capacity, sizeof *larger.values);
    if (larger.keys == NULL || larger.values == NULL) {
        free(larger.keys);
        free(larger.values);
        return false;
    }
    for (uint32_t at = 0; at < numbers->capacity; at++) {
        if (numbers->keys[at] == 0)
            continue;
        const uint32_t place = place_of(&larger, numbers->keys[at]);
        larger.keys[place] = numbers->keys[at];
        larger.values[place] = numbers->values[at];
    }
    free(numbers->keys);
    free(numbers->values);
    *numbers = larger;
    return true;
}

/* Give the key the next number; TPROF_NO_STACK if that is `most`, or there is no memory. */
static uint32_t add(struct tprof_numbers *numbers, uint64_t key, uint32_t most)
{
    if (numbers->count >= most || (2 * (numbers->count + 1) > numbers->capacity && !grow(numbers)))
        return TPROF_NO_STACK;
    const uint32_t place = place_of(numbers, key);
    numbers->keys[place] = key;
    numbers->values[place] = numbers->count;
    return numbers->count++;
}

static void write_record(struct tprof_stacks *stacks, const struct tprof_stack *record)
{
    struct tprof_stack *slot = tprof_stream_slot(&stacks->stream);
    if (slot == NULL)
        return;
    *slot = *record;
    tprof_stream_commit(&stacks->stream);
}

int tprof_stacks_create(struct tprof_stacks *stacks, const char *path, uint32_t process)
{
    struct tprof_header header = {
        .magic = TPROF_MAGIC,
        .major = TPROF_MAJOR,
        .minor = TPROF_MINOR,
        .endian = TPROF_ENDIAN,
        .kind = TPROF_STACKS,
        .header_bytes = TPROF_HEADER_BYTES,
        .window_bytes = WINDOW_BYTES,
        .record_bytes = sizeof(struct tprof_stack),
        .process = process,
        .thread = TPROF_NO_THREAD,
        .pid = (uint32_t)getpid(),
        .start_ns = tprof_now_ns(),
        .description_bytes = sizeof DESCRIPTION - 1,
        .description = DESCRIPTION,
    };
    memset(stacks, 0, sizeof *stacks);
    return tprof_stream_create(&stacks->stream, AT_FDCWD, path, &header);
}

void tprof_stacks_close(struct tprof_stacks *stacks, bool is_ours)
{
    if (is_ours && stacks->stream.header != NULL) {
        stacks->stream.header->end_ns = tprof_now_ns();
        stacks->stream.header->end_reason = TPROF_STOPPED;
        tprof_stream_close(&stacks->stream, true);
    }
    free(stacks->functions.keys);
    free(stacks->functions.values);
    free(stacks->stacks.keys);
    free(stacks->stacks.values);
    memset(stacks, 0, sizeof *stacks);
}

uint32_t tprof_stacks_function(const struct tprof_stacks *stacks, uint64_t key)
{
    return find(&stacks->functions, key);
}

uint32_t tprof_stacks_add_function(struct tprof_stacks *stacks, uint64_t key, const char *text, uint8_t flags)
{
    static_assert(offsetof(struct tprof_stack, number) - offsetof(struct tprof_stack, cpu_ns) == TPROF_STACK_TEXT_BYTES,
                  "the text has its place");
    const size_t length = strnlen(text, (size_t)TPROF_STACK_TEXT_BYTES << 16);
    const uint32_t number = add(&stacks->functions, key, TPROF_MAX_FUNCTIONS);
    if (number == TPROF_NO_STACK)
        return number;
    struct tprof_stack record = {.number = number, .kind = TPROF_STACK_FUNCTION, .flags = flags};
    for (size_t at = 0; at < length; at += TPROF_STACK_TEXT_BYTES) {
        char *place = (char *)&record + offsetof(struct tprof_stack, cpu_ns);
        memset(place, 0, TPROF_STACK_TEXT_BYTES);
        memcpy(place, text + at, length - at < TPROF_STACK_TEXT_BYTES ? length - at : TPROF_STACK_TEXT_BYTES);
        record.part = (uint16_t)(at / TPROF_STACK_TEXT_BYTES);
        write_record(stacks, &record);
    }
    return number;
}

uint32_t tprof_stacks_call(struct tprof_stacks *stacks, uint32_t caller, uint32_t function)
{
    const uint64_t key = ((uint64_t)caller + 1) << 32 | ((uint64_t)function + 1);
    uint32_t number = find(&stacks->stacks, key);
    if (number != TPROF_NO_STACK)
        return number;
    number = add(&stacks->stacks, key, TPROF_MAX_STACKS);
    if (number == TPROF_NO_STACK)
        return caller;
    const struct tprof_stack record = {.cpu_ns = function, .other = caller, .number = number, .kind = TPROF_STACK_CALL};
    write_record(stacks, &record);
    return number;
}

void tprof_stacks_sample(struct tprof_stacks *stacks, const struct tprof_stack *sample)
{
    write_record(stacks, sample);
}
