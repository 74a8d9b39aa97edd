/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest driver that the loader accepts, to copy from: it keeps no data and runs nothing, and
 * its streams are always idle. Tests of the runtime use it where results do not matter, and build
 * broken variants of it: NULL_DRIVER_ABI_MAJOR (another version), NULL_DRIVER_HOLE (a missing
 * function), NULL_DRIVER_SHORT (a table that ends early). Plain C, which also shows that driver.h
 * is. */
#include <stdio.h>
#include <stdlib.h>

#include "spyre/driver/driver.h"

#ifndef NULL_DRIVER_ABI_MAJOR
#define NULL_DRIVER_ABI_MAJOR SPYRE_DRIVER_ABI_MAJOR
#endif
#define EXPORT __attribute__((visibility("default")))

#define NULL_DRIVER_MEMORY ((uint64_t)64 << 20)

/* Test hooks, reached by dlsym: what the driver was asked for, and whether its events are reached.
 */
EXPORT uint64_t null_driver_used_bytes;
EXPORT uint64_t null_driver_allocations;
EXPORT uint64_t null_driver_launches;
EXPORT int null_driver_events_pending;

struct spyre_device_t {
  uint64_t next_address;
};
struct spyre_stream_t {
  spyre_device* device;
};
struct spyre_event_t {
  int recorded;
};
struct spyre_program_t {
  size_t size;
};

#define MAX_REGIONS 4096
static struct {
  uint64_t address, bytes;
} regions[MAX_REGIONS];

static spyre_status fail(spyre_status status, char* error, const char* message) {
  if (error) snprintf(error, SPYRE_DRIVER_ERROR_BYTES, "%s", message);
  return status;
}

static spyre_status device_count(uint32_t* count, char* error) {
  (void)error;
  *count = 2;
  return SPYRE_OK;
}

static spyre_status device_open(uint32_t index, const spyre_device_options* options,
                                spyre_device** out, char* error) {
  (void)options;
  if (index >= 2) return fail(SPYRE_INVALID_ARGUMENT, error, "there are two null devices");
  *out = calloc(1, sizeof(**out));
  if (!*out) return fail(SPYRE_OUT_OF_MEMORY, error, "the host is out of memory");
  (*out)->next_address = 4096;
  return SPYRE_OK;
}

static void device_close(spyre_device* device) { free(device); }

static spyre_status device_properties(spyre_device* device, spyre_device_properties* out,
                                      char* error) {
  (void)device;
  (void)error;
  snprintf(out->name, sizeof(out->name), "null device");
  out->cores = 32;
  out->memory_bytes = NULL_DRIVER_MEMORY;
  out->lx_bytes = 2 << 20;
  out->max_allocation_bytes = NULL_DRIVER_MEMORY;
  out->stick_bytes = 128;
  out->host_threads = 0;
  return SPYRE_OK;
}

static spyre_status memory_alloc(spyre_device* device, uint64_t bytes, uint64_t* address,
                                 char* error) {
  int i = 0;
  if (bytes == 0 || bytes % 128)
    return fail(SPYRE_INVALID_ARGUMENT, error, "bytes must be whole sticks");
  if (null_driver_used_bytes + bytes > NULL_DRIVER_MEMORY)
    return fail(SPYRE_OUT_OF_MEMORY, error, "null memory is full");
  while (i < MAX_REGIONS && regions[i].address) ++i;
  if (i == MAX_REGIONS) return fail(SPYRE_OUT_OF_MEMORY, error, "too many regions");
  regions[i].address = *address = device->next_address;
  regions[i].bytes = bytes;
  device->next_address += bytes;
  null_driver_used_bytes += bytes;
  ++null_driver_allocations;
  return SPYRE_OK;
}

static void memory_free(spyre_device* device, uint64_t address) {
  int i;
  (void)device;
  for (i = 0; i < MAX_REGIONS; ++i) {
    if (regions[i].address != address) continue;
    null_driver_used_bytes -= regions[i].bytes;
    regions[i].address = 0;
    return;
  }
}

static spyre_status memory_info(spyre_device* device, uint64_t* free_bytes, uint64_t* total_bytes,
                                char* error) {
  (void)device;
  (void)error;
  *free_bytes = NULL_DRIVER_MEMORY - null_driver_used_bytes;
  *total_bytes = NULL_DRIVER_MEMORY;
  return SPYRE_OK;
}

static spyre_status stream_create(spyre_device* device, int32_t priority, spyre_stream** out,
                                  char* error) {
  (void)priority;
  *out = calloc(1, sizeof(**out));
  if (!*out) return fail(SPYRE_OUT_OF_MEMORY, error, "the host is out of memory");
  (*out)->device = device;
  return SPYRE_OK;
}

static void stream_destroy(spyre_stream* stream) { free(stream); }

static spyre_status stream_query(spyre_stream* stream, char* error) {
  (void)stream;
  (void)error;
  return SPYRE_OK;
}

static spyre_status stream_synchronize(spyre_stream* stream, char* error) {
  (void)stream;
  (void)error;
  return SPYRE_OK;
}

static spyre_status event_create(spyre_device* device, spyre_event** out, char* error) {
  (void)device;
  *out = calloc(1, sizeof(**out));
  return *out ? SPYRE_OK : fail(SPYRE_OUT_OF_MEMORY, error, "the host is out of memory");
}

static void event_destroy(spyre_event* event) { free(event); }

static spyre_status event_record(spyre_event* event, spyre_stream* stream, char* error) {
  (void)stream;
  (void)error;
  event->recorded = 1;
  return SPYRE_OK;
}

static spyre_status event_wait(spyre_event* event, spyre_stream* stream, char* error) {
  (void)event;
  (void)stream;
  (void)error;
  return SPYRE_OK;
}

static spyre_status event_query(spyre_event* event, char* error) {
  (void)event;
  (void)error;
  return null_driver_events_pending ? SPYRE_NOT_READY : SPYRE_OK;
}

static spyre_status event_synchronize(spyre_event* event, char* error) {
  (void)event;
  (void)error;
  return SPYRE_OK;
}

static spyre_status event_elapsed_ns(spyre_event* start, spyre_event* end, int64_t* ns,
                                     char* error) {
  (void)start;
  (void)end;
  (void)error;
  *ns = 0;
  return SPYRE_OK;
}

static spyre_status transfer(spyre_stream* stream, const spyre_transfer* request, char* error) {
  (void)stream;
  if (request->struct_size < sizeof(*request))
    return fail(SPYRE_INVALID_ARGUMENT, error, "the transfer is shorter than ABI 1.0's");
  return SPYRE_OK;
}

#ifndef NULL_DRIVER_HOLE
static spyre_status memory_copy(spyre_stream* stream, uint64_t to, uint64_t from, uint64_t bytes,
                                char* error) {
  (void)stream;
  (void)to;
  (void)from;
  (void)bytes;
  (void)error;
  return SPYRE_OK;
}
#endif

static spyre_status program_load(spyre_device* device, const void* image, size_t size,
                                 spyre_program** out, char* error) {
  (void)device;
  (void)image;
  *out = calloc(1, sizeof(**out));
  if (!*out) return fail(SPYRE_OUT_OF_MEMORY, error, "the host is out of memory");
  (*out)->size = size;
  return SPYRE_OK;
}

static void program_unload(spyre_program* program) { free(program); }

static spyre_status program_launch(spyre_stream* stream, spyre_program* program,
                                   const uint64_t* addresses, uint32_t count, char* error) {
  (void)stream;
  (void)program;
  (void)addresses;
  (void)count;
  (void)error;
  ++null_driver_launches;
  return SPYRE_OK;
}

static const spyre_driver_api api = {
#ifdef NULL_DRIVER_SHORT
    64,
#else
    sizeof(spyre_driver_api),
#endif
    NULL_DRIVER_ABI_MAJOR,
    SPYRE_DRIVER_ABI_MINOR,
    "null",
    "1.0",
    device_count,
    device_open,
    device_close,
    device_properties,
    memory_alloc,
    memory_free,
    memory_info,
    stream_create,
    stream_destroy,
    stream_query,
    stream_synchronize,
    event_create,
    event_destroy,
    event_record,
    event_wait,
    event_query,
    event_synchronize,
    event_elapsed_ns,
    transfer,
#ifdef NULL_DRIVER_HOLE
    NULL,
#else
    memory_copy,
#endif
    program_load,
    program_unload,
    program_launch,
};

EXPORT const spyre_driver_api* spyre_driver_get_api(uint32_t abi_major) {
  return abi_major == NULL_DRIVER_ABI_MAJOR ? &api : NULL;
}
