# SPDX-License-Identifier: Apache-2.0
"""Drivers that cannot be loaded or that fail: a clear exception, and the CPU goes on working."""

import shutil
import subprocess
from pathlib import Path

import pytest
import spyre_runtime

INCLUDE = next(
    Path(folder) / "include"
    for folder in spyre_runtime.__path__
    if (Path(folder) / "include").is_dir()
)
SOFTWARE = next(
    Path(folder) / "libspyre_softdev.so"
    for folder in spyre_runtime.__path__
    if (Path(folder) / "libspyre_softdev.so").is_file()
)

# Hands everything to the software device but the calls that FAIL names, as "name:status:text".
FAILING = r"""
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "spyre/driver/driver.h"

static spyre_driver_api mine;
static const spyre_driver_api* real;
static int closed = 0;

static int fails(const char* name, char* error, spyre_status* status) {
  const char* wanted = getenv("FAIL");
  size_t length = strlen(name);
  if (wanted == NULL || strncmp(wanted, name, length) != 0 || wanted[length] != ':') return 0;
  *status = (spyre_status)(wanted[length + 1] - '0');
  if (error != NULL) strncpy(error, wanted + length + 3, SPYRE_DRIVER_ERROR_BYTES - 1);
  return 1;
}
#define CALL(name, parameters, arguments)                   \
  static spyre_status name parameters {                     \
    spyre_status status;                                    \
    if (fails(#name, error, &status)) return status;        \
    return real->name arguments;                            \
  }
CALL(device_count, (uint32_t* n, char* error), (n, error))
CALL(device_open, (uint32_t i, const spyre_device_options* o, spyre_device** d, char* error),
     (i, o, d, error))
CALL(memory_alloc, (spyre_device* d, uint64_t n, uint64_t* a, char* error), (d, n, a, error))
CALL(stream_create, (spyre_device* d, int32_t p, spyre_stream** s, char* error), (d, p, s, error))
CALL(stream_synchronize, (spyre_stream* s, char* error), (s, error))
CALL(transfer, (spyre_stream* s, const spyre_transfer* t, char* error), (s, t, error))
CALL(program_load, (spyre_device* d, const void* p, size_t n, spyre_program** o, char* error),
     (d, p, n, o, error))
CALL(program_launch,
     (spyre_stream* s, spyre_program* p, const uint64_t* a, uint32_t n, char* error),
     (s, p, a, n, error))
static spyre_status device_properties(spyre_device* d, spyre_device_properties* p, char* error) {
  spyre_status status;
  if (fails("device_properties", error, &status)) return status;
  status = real->device_properties(d, p, error);
  if (getenv("STICK") != NULL) p->stick_bytes = 64;
  return status;
}
static void device_close(spyre_device* d) { ++closed; real->device_close(d); }
int times_closed(void) { return closed; }

const spyre_driver_api* spyre_driver_get_api(uint32_t major) {
  if (major != SPYRE_DRIVER_ABI_MAJOR) return NULL;
  void* library = dlopen(getenv("REAL_DRIVER"), RTLD_NOW);
  real = ((spyre_driver_get_api_fn)dlsym(library, "spyre_driver_get_api"))(major);
  mine = *real;
  mine.name = "failing";
  mine.device_count = device_count;
  mine.device_open = device_open;
  mine.device_close = device_close;
  mine.device_properties = device_properties;
  mine.memory_alloc = memory_alloc;
  mine.stream_create = stream_create;
  mine.stream_synchronize = stream_synchronize;
  mine.transfer = transfer;
  mine.program_load = program_load;
  mine.program_launch = program_launch;
  return &mine;
}
"""
TABLE = """
#include "spyre/driver/driver.h"
static spyre_driver_api api;
const spyre_driver_api* spyre_driver_get_api(uint32_t major) {
  (void)major;
  api.struct_size = sizeof(api);
  %s
  return &api;
}
"""
NOT_LOADED = (
    "no Spyre driver could be loaded (path from SPYRE_DRIVER); set it to the path of one that "
    "fits, or unset it to use the software device; tried:\n  {}: "
)
# What is wrong with the library -> (its source, what the error says).
BAD_LIBRARIES = {
    "no export": ("int nothing;", "it does not export spyre_driver_get_api"),
    "other major": (TABLE % "api.abi_major = 2;", "it speaks driver ABI major 2, but this runtime"),
    "no name": (TABLE % "api.abi_major = 1;", "its function table has no name or version"),
    "holes": (
        TABLE % 'api.abi_major = 1; api.name = api.version = "x";',
        "its function table has a null entry, number 0",
    ),
    "short": (
        TABLE % "api.abi_major = 1; api.struct_size = 64;",
        "its function table has 64 bytes, but ABI 1.0 needs",
    ),
}


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("building a driver needs a C compiler")
    folder = tmp_path_factory.mktemp("drivers")

    def make(name, source):
        library = folder / f"{name.replace(' ', '_')}.so"
        if not library.exists():
            path = folder / "driver.c"
            path.write_text(source)
            command = [compiler, "-shared", "-fPIC", f"-I{INCLUDE}", "-o", library, path, "-ldl"]
            subprocess.run(command, check=True)
        return str(library)

    return make


@pytest.mark.parametrize("fault", BAD_LIBRARIES)
def test_a_library_that_is_no_driver(run_python, build, fault):
    source, text = BAD_LIBRARIES[fault]
    path = build(fault, source)
    out = run_python("torch.ones(1, device='spyre')", exit_code=1, SPYRE_DRIVER=path)
    assert NOT_LOADED.format(path) in out
    assert text in out


@pytest.mark.parametrize("content", [None, b"", b"no library", b"\x7fELF garbage"])
def test_a_path_that_is_no_library(run_python, tmp_path, content):
    path = tmp_path / "driver.so"
    if content is not None:
        path.write_bytes(content)
    out = run_python("torch.ones(1, device='spyre')", exit_code=1, SPYRE_DRIVER=str(path))
    assert "RuntimeError: " + NOT_LOADED.format(path) in out


@pytest.mark.parametrize("share", [0.001, 0.3, 0.6])
def test_a_library_that_was_cut_short(run_python, tmp_path, share):
    path = tmp_path / "driver.so"
    whole = SOFTWARE.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    out = run_python("torch.ones(1, device='spyre')", exit_code=1, SPYRE_DRIVER=str(path))
    assert NOT_LOADED.format(path) + "the file ends before its contents do" in out


@pytest.mark.parametrize(
    "setting", [{"SPYRE_DRIVER": "/no/such/driver.so"}, {"SENCORES": "0"}, {"SENCORES": "\udcff"}]
)
def test_the_cpu_does_without_the_device(run_python, setting):
    out = run_python(
        """
        torch.manual_seed(3)
        assert torch.ones(2).sum() == 2
        assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)) == 2
        assert not torch.accelerator.is_available()
        assert not torch.spyre.is_available()
        import os
        for name in ("SPYRE_DRIVER", "SENCORES"):
            os.environ.pop(name, None)
        assert torch.spyre.initial_seed() == 3  # the seed was kept for the device
        print("works")
        """,
        **setting,
    )
    assert "works" in out
    assert "RuntimeWarning: spyre is not available: " in out


FAILURES = {
    "device_count": 2,
    "device_open": 5,
    "device_properties": 6,
    "memory_alloc": 6,
    "stream_create": 6,
    "stream_synchronize": 4,
    "transfer": 2,
    "program_load": 5,
    "program_launch": 6,
}
EXCEPTIONS = {2: "ValueError", 4: "IndexError", 5: "NotImplementedError", 6: "RuntimeError"}


@pytest.mark.parametrize("function", FAILURES)
def test_a_driver_s_failure_is_an_exception_and_what_follows_works(run_python, build, function):
    status = FAILURES[function]
    path = build("failing", FAILING)
    out = run_python(
        """
        import os

        def use():
            x = torch.ones(8, 64, device="spyre", dtype=torch.float16)
            return ((x @ x.t()) + 1).cpu()

        try:
            use()
        except Exception as error:
            print(type(error).__name__, error)
        else:
            raise AssertionError("nothing was raised")
        os.unsetenv("FAIL")
        assert use()[0, 0] == 65
        print("recovered")
        """,
        SPYRE_DRIVER=path,
        REAL_DRIVER=str(SOFTWARE),
        FAIL=f"{function}:{status}:the \udcff reason",
    )
    assert f"{EXCEPTIONS[status]} " in out
    assert "the \\xff reason" in out
    assert "recovered" in out


def test_a_device_that_does_not_fit_is_closed_again(run_python, build):
    out = run_python(
        """
        import ctypes, os
        for _ in range(2):
            try:
                torch.ones(1, device="spyre")
            except RuntimeError as error:
                print(error)
        print("closed", ctypes.CDLL(os.environ["SPYRE_DRIVER"]).times_closed())
        """,
        SPYRE_DRIVER=build("failing", FAILING),
        REAL_DRIVER=str(SOFTWARE),
        STICK="1",
    )
    assert 'driver "failing" has sticks of 64 bytes, but this runtime needs 128' in out
    assert "closed 2" in out
