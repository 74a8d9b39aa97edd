/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPYRE_DRIVER_DRIVER_H_
#define SPYRE_DRIVER_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

/* The Spyre driver ABI. A driver is a shared library that exports one function,
 *
 *     const spyre_driver_api* spyre_driver_get_api(uint32_t abi_major);
 *
 * which returns NULL if it does not speak that major version. Everything else is reached through
 * the table. Compiles as C99 and C++.
 *
 * Rules of evolution: within a major version fields are only added at the end of a struct, every
 * struct that a caller fills begins with its own size, and a driver must not read past the size it
 * is given. No exception and no C++ type crosses this boundary. Every function may be called from
 * any thread unless it says otherwise. A function that can fail returns a status and, if `error` is
 * not NULL, writes a NUL-terminated UTF-8 message of at most SPYRE_DRIVER_ERROR_BYTES bytes. */

#ifdef __cplusplus
extern "C" {
#endif

#define SPYRE_DRIVER_ABI_MAJOR 1u
#define SPYRE_DRIVER_ABI_MINOR 0u
#define SPYRE_DRIVER_ERROR_BYTES 1024u

typedef enum spyre_status {
  SPYRE_OK = 0,
  SPYRE_NOT_READY = 1,        /* query: work is still running; not an error */
  SPYRE_INVALID_ARGUMENT = 2, /* misuse: becomes ValueError */
  SPYRE_OUT_OF_MEMORY = 3,    /* becomes torch.OutOfMemoryError */
  SPYRE_INDEX_ERROR = 4,      /* a gather or scatter index out of range: becomes IndexError */
  SPYRE_UNSUPPORTED = 5,      /* becomes NotImplementedError */
  SPYRE_INTERNAL = 6          /* a bug in the driver */
} spyre_status;

typedef struct spyre_device_t spyre_device;
typedef struct spyre_stream_t spyre_stream;
typedef struct spyre_event_t spyre_event;
typedef struct spyre_program_t spyre_program; /* a loaded, verified program */

typedef struct spyre_device_options {
  size_t struct_size;
  uint32_t partition; /* 0: whole device memory (PF), 1: a partition, smaller and segmented (VF) */
} spyre_device_options;

typedef struct spyre_device_properties {
  size_t struct_size;
  char name[64];
  uint32_t cores;        /* 32 */
  uint64_t memory_bytes; /* device memory */
  uint64_t lx_bytes;     /* scratchpad of one core: 2 MiB */
  uint64_t max_allocation_bytes;
  uint32_t stick_bytes;  /* 128 */
  uint32_t host_threads; /* threads that a software device runs on; 0 for hardware */
} spyre_device_properties;

/* One loop of a transfer. Strides count elements, and may be zero only on the side that is read. */
typedef struct spyre_transfer_loop {
  int64_t extent;
  int64_t host_stride;
  int64_t device_stride;
} spyre_transfer_loop;

/* A copy between host and device memory that converts format and layout in one pass. `loops` run
 * outermost first. Formats and dtypes are spyre::layout::DataFormat and HostDtype values. */
typedef struct spyre_transfer {
  size_t struct_size;
  int32_t to_device; /* 1: host -> device, 0: device -> host */
  int32_t host_dtype;
  int32_t device_format;
  uint32_t loop_count;
  const spyre_transfer_loop* loops;
  void* host;              /* address of the element at loop index zero */
  uint64_t device_address; /* address of the allocation */
  int64_t device_offset;   /* elements from device_address to loop index zero */
} spyre_transfer;

typedef struct spyre_driver_api {
  size_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor;
  const char* name; /* "software", ...; static storage */
  const char* version;

  /* Devices present. Cheap; opens nothing. */
  spyre_status (*device_count)(uint32_t* count, char* error);
  spyre_status (*device_open)(uint32_t index, const spyre_device_options*, spyre_device** out,
                              char* error);
  /* Blocks until the device's streams are idle. Every stream, event and program must be gone. */
  void (*device_close)(spyre_device*);
  spyre_status (*device_properties)(spyre_device*, spyre_device_properties*, char* error);

  /* Device memory: `bytes` is a multiple of 128. Addresses are opaque, except that address + n lies
   * in the same allocation for every n < bytes, and that they are multiples of 128; 0 is never
   * valid. The caller frees only memory that no queued work uses. Contents are unspecified. */
  spyre_status (*memory_alloc)(spyre_device*, uint64_t bytes, uint64_t* address, char* error);
  void (*memory_free)(spyre_device*, uint64_t address);
  spyre_status (*memory_info)(spyre_device*, uint64_t* free_bytes, uint64_t* total_bytes,
                              char* error);

  /* Streams run their work in order, one after the other; streams of a device run concurrently. */
  spyre_status (*stream_create)(spyre_device*, int32_t priority, spyre_stream** out, char* error);
  void (*stream_destroy)(spyre_stream*); /* waits for queued work */
  spyre_status (*stream_query)(spyre_stream*, char* error);
  /* Blocks. Returns, once, an error that work on the stream met since the last call; the stream
   * stays usable. */
  spyre_status (*stream_synchronize)(spyre_stream*, char* error);

  /* Events. record captures the work queued so far; wait makes later work of `stream` wait for it.
   * An event that was never recorded counts as reached. Recording again leaves those alone who
   * already wait for the former point. synchronize blocks, and returns as stream_synchronize does,
   * once between the two, an error that work of the event's stream met. elapsed is SPYRE_NOT_READY
   * before both events are reached, and SPYRE_INVALID_ARGUMENT if one was never recorded. */
  spyre_status (*event_create)(spyre_device*, spyre_event** out, char* error);
  void (*event_destroy)(spyre_event*);
  spyre_status (*event_record)(spyre_event*, spyre_stream*, char* error);
  spyre_status (*event_wait)(spyre_event*, spyre_stream*, char* error);
  spyre_status (*event_query)(spyre_event*, char* error);
  spyre_status (*event_synchronize)(spyre_event*, char* error);
  spyre_status (*event_elapsed_ns)(spyre_event* start, spyre_event* end, int64_t* ns, char* error);

  /* Queue work. A transfer's struct and loops are copied before return; host memory must stay valid
   * until the work is done. memory_copy copies bytes between device addresses of one device. */
  spyre_status (*transfer)(spyre_stream*, const spyre_transfer*, char* error);
  spyre_status (*memory_copy)(spyre_stream*, uint64_t to, uint64_t from, uint64_t bytes,
                              char* error);

  /* Programs. load verifies the image (spyre::program::serialize of a bound program) and refuses it
   * with the reason. launch queues one run; `addresses` has one device address per argument buffer,
   * in the order of declaration, a multiple of 128, each with at least the bytes that the image
   * says. An index out of range met by the run is told by the next stream_synchronize. */
  spyre_status (*program_load)(spyre_device*, const void* image, size_t size, spyre_program** out,
                               char* error);
  void (*program_unload)(
      spyre_program*); /* queued runs finish first; may be called while they run */
  spyre_status (*program_launch)(spyre_stream*, spyre_program*, const uint64_t* addresses,
                                 uint32_t count, char* error);
} spyre_driver_api;

typedef const spyre_driver_api* (*spyre_driver_get_api_fn)(uint32_t abi_major);

#ifdef __cplusplus
}
#endif
#endif /* SPYRE_DRIVER_DRIVER_H_ */
