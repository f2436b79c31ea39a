/* An energy counter that the kernel shows as a file (powercap's energy_uj). Its descriptor stays open, since opening is
 * the larger part of a read's cost. When the zone vanishes (a package goes offline), it is searched for by name,
 * because it may return with another number. Called by one thread at a time for each source. */
#include "source.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "descriptor.h"

#define STALE_NS UINT64_C(200000000)

static int parse(const char *text, uint64_t *value)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return EBADMSG;
    errno = 0;
    *value = strtoull(text, &end, 10);
    if (errno != 0 || (*end != '\n' && *end != '\0'))
        return EBADMSG;
    return 0;
}

static bool has_name(const char *directory, const char *expected)
{
    char path[PATH_MAX], name[64];
    if (snprintf(path, sizeof path, "%s/name", directory) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const bool found = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    if (!found)
        return false;
    name[strcspn(name, "\n")] = '\0';
    return strcmp(name, expected) == 0;
}

/* The search folder has all zones side by side: intel-rapl:0, and its parts intel-rapl:0:0, intel-rapl:0:1. */
static bool find_zone(const char *search, const char *prefix, const char *expected, char found[PATH_MAX])
{
    struct dirent *entry;
    bool matched = false;
    DIR *directory = opendir(search);
    if (directory == NULL)
        return false;
    while (!matched && (entry = readdir(directory)) != NULL) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        if (snprintf(found, PATH_MAX, "%s/%s", search, entry->d_name) >= PATH_MAX)
            continue;
        matched = has_name(found, expected);
    }
    closedir(directory);
    return matched;
}

/* "intel-rapl:" of …/intel-rapl:1/energy_uj: its twin intel-rapl-mmio has zones of the same names, and another count.
 */
static bool control_type(const struct tprof_source *source, char prefix[PATH_MAX])
{
    const size_t length = strlen(source->search);
    if (strncmp(source->path, source->search, length) != 0 || source->path[length] != '/')
        return false;
    const char *folder = source->path + length + 1;
    return snprintf(prefix, PATH_MAX, "%.*s:", (int)strcspn(folder, ":/"), folder) < PATH_MAX;
}

static bool search_again(struct tprof_source *source)
{
    char zone[PATH_MAX], part[PATH_MAX], prefix[PATH_MAX];
    const char *found = zone;
    if (!control_type(source, prefix) || !find_zone(source->search, prefix, source->zone, zone))
        return false;
    if (source->subzone[0] != '\0') {
        if (snprintf(prefix, sizeof prefix, "%s:", strrchr(zone, '/') + 1) >= (int)sizeof prefix ||
            !find_zone(source->search, prefix, source->subzone, part))
            return false;
        found = part;
    }
    (void)!snprintf(source->path, sizeof source->path, "%.*s/energy_uj", (int)(PATH_MAX - 16), found);
    return true;
}

static int open_again(struct tprof_source *source)
{
    const bool first = source->last_success_ns == 0 && source->failures == 0;
    /* The old number may now be that of another package's zone. */
    if (!first && source->zone[0] != '\0' && !search_again(source))
        return ENOENT;
    source->fd = tprof_descriptor_raise(open(source->path, O_RDONLY | O_CLOEXEC));
    if (source->fd < 0)
        return errno;
    source->reopened = !first;
    return 0;
}

/* A descriptor of a removed zone may return the last value without an error: check that the name still leads to it. */
static bool went_stale(const struct tprof_source *source)
{
    struct stat held, named;
    if (tprof_now_ns() - source->last_record_ns < STALE_NS / 2)
        return false;
    return stat(source->path, &named) != 0 || fstat(source->fd, &held) != 0 || named.st_ino != held.st_ino ||
           named.st_dev != held.st_dev;
}

int tprof_file_read(struct tprof_source *source, uint64_t *value)
{
    char text[64];
    if (source->fd >= 0 && went_stale(source)) {
        close(source->fd);
        source->fd = -1;
    }
    if (source->fd < 0) {
        const int error = open_again(source);
        if (error != 0)
            return error;
    }
    const ssize_t count = pread(source->fd, text, sizeof text - 1, 0);
    if (count < 0) {
        const int error = errno;
        if (error == ENODEV || error == ESTALE || error == EBADF || error == ENXIO) {
            close(source->fd);
            source->fd = -1;
        }
        return error;
    }
    text[count] = '\0';
    return parse(text, value);
}
