"""A disk that fails when told to: a few lines of C between the node and the C library.

The node runs with the library preloaded. What is wrong, while a file of that name exists:

- `fail`: every fdatasync fails with EIO, as Linux reports a write-back error.
- `hold`: the flush thread's fdatasync waits, and fails in the end; later ones succeed, because the
  kernel tells of an error once.
- `slow`: the flush thread's fdatasync waits, and succeeds in the end.
- `full`: files neither grow nor come into being: ENOSPC.
- `unreadable`: reading fails with EIO.
- `forgetful`: nothing is in memory, however often it was read: a read that may not wait is EAGAIN.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static int is_there(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("FAILING_DISK"), name);
    return access(path, F_OK) == 0;
}

static void wait_for_end_of(const char *name) {
    struct timespec pause = {0, 1000000};
    char path[4096];
    snprintf(path, sizeof path, "%s/waiting", getenv("FAILING_DISK"));
    FILE *waiting = fopen(path, "w");
    if (waiting) fclose(waiting);
    while (is_there(name)) nanosleep(&pause, 0);
}

int fdatasync(int descriptor) {
    static int (*real)(int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    if (gettid() != getpid()) {
        if (is_there("hold")) {
            wait_for_end_of("hold");
            errno = EIO;
            return -1;
        }
        if (is_there("slow")) wait_for_end_of("slow");
    }
    if (is_there("fail")) {
        errno = EIO;
        return -1;
    }
    return real(descriptor);
}

static int is_growing(int descriptor, off_t end) {
    struct stat file;
    return fstat(descriptor, &file) == 0 && end > file.st_size && is_there("full");
}

ssize_t pwritev64v2(int descriptor, const struct iovec *parts, int count, off_t at, int flags) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pwritev64v2");
    off_t end = at;
    for (int part = 0; part < count; part++) end += parts[part].iov_len;
    if (is_growing(descriptor, end)) {
        errno = ENOSPC;
        return -1;
    }
    return real(descriptor, parts, count, at, flags);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off_t at) {
    return pwritev64v2(descriptor, parts, count, at, 0);
}

ssize_t pread64(int descriptor, void *buffer, size_t size, off_t at) {
    static ssize_t (*real)(int, void *, size_t, off_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pread64");
    if (is_there("unreadable")) {
        errno = EIO;
        return -1;
    }
    return real(descriptor, buffer, size, at);
}

ssize_t preadv64v2(int descriptor, const struct iovec *parts, int count, off_t at, int flags) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t, int);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "preadv64v2");
    if (flags & RWF_NOWAIT && is_there("forgetful")) {
        errno = EAGAIN;
        return -1;
    }
    if (is_there("unreadable")) {
        errno = EIO;
        return -1;
    }
    return real(descriptor, parts, count, at, flags);
}

ssize_t sendfile64(int out, int in, off_t *at, size_t size) {
    static ssize_t (*real)(int, int, off_t *, size_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "sendfile64");
    if (is_there("unreadable")) {
        errno = EIO;
        return -1;
    }
    return real(out, in, at, size);
}

int open64(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "open64");
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    if (flags & O_CREAT && access(path, F_OK) != 0 && is_there("full")) {
        errno = ENOSPC;
        return -1;
    }
    return real(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
    static int (*real)(const char *, mode_t);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "mkdir");
    if (access(path, F_OK) != 0 && is_there("full")) {
        errno = ENOSPC;
        return -1;
    }
    return real(path, mode);
}
"""


class FailingDisk:
    """Nodes started while it is `plugged_in` have it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._library = directory / "failing_disk.so"
        source = directory / "failing_disk.c"
        source.write_text(_SOURCE)
        compiler = shutil.which("gcc") or shutil.which("cc")
        assert compiler is not None, "this test needs a C compiler"
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source, "-ldl"], check=True
        )

    @property
    def environment(self) -> dict[str, str]:
        """Of a process that is to have it."""
        return {"LD_PRELOAD": str(self._library), "FAILING_DISK": str(self._directory)}

    def plug_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)

    def unplug(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("LD_PRELOAD")
        self.set("fail", False)

    def set(self, what: str, is_on: bool) -> None:
        if is_on:
            (self._directory / what).touch()
        else:
            (self._directory / what).unlink(missing_ok=True)

    @property
    def is_waiting(self) -> bool:
        """A flush has begun and waits."""
        return (self._directory / "waiting").exists()
