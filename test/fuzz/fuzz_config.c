// SPDX-License-Identifier: Apache-2.0
// Any bytes as YAML and as the master's configuration file.
#include "common/cleanup.h"
#include "common/yaml.h"
#include "master/config.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

static void try_yaml(const uint8_t *data, size_t size)
{
    struct yaml_doc *doc = NULL;
    struct err e = {""};
    int r = yaml_parse((const char *)data, size, &doc, &e);
    require((r == 0) == (doc != NULL));
    if (!doc)
        return;
    int line = 0, column = 0;
    if (yaml_position(doc, yaml_root(doc), &line, &column))
        require(line > 0 && column > 0);
    yaml_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct master_config c;
    struct err e = {""};
    try_yaml(data, size);
    cleanup_close int fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (master_config_load(path, &c, &e) < 0) {
        require(e.text[0] != '\0');
        return 0;
    }
    require(c.listen_port >= 0 && c.listen_port <= 65535);
    require(c.limits.connections >= 10);
    master_config_free(&c);
    return 0;
}
