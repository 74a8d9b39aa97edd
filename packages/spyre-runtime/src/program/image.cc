// SPDX-License-Identifier: Apache-2.0
// Binary image of a bound program. Little-endian; every number is written whole, so the form is
// simple and reading it needs only a bound on counts. One description of each struct serves both
// directions.
#include <bit>
#include <cstring>
#include <stdexcept>
#include <type_traits>

#include "program/bound.h"
#include "program/check.h"
#include "program/verify.h"
#include "spyre/program/link.h"

namespace spyre::program {
namespace {

static_assert(std::endian::native == std::endian::little, "images are little-endian");

constexpr char kMagic[8] = {'S', 'P', 'Y', 'R', 'E', 'P', 'R', 'G'};

class Writer {
 public:
  static constexpr bool kReading = false;

  template <class T>
  void number(T& value) {
    int64_t wide = 0;
    if constexpr (std::is_same_v<T, double>)
      std::memcpy(&wide, &value, sizeof wide);
    else
      wide = static_cast<int64_t>(value);
    raw(&wide, sizeof wide);
  }

  void text(std::string& value) {
    auto size = value.size();
    number(size);
    raw(value.data(), size);
  }

  template <class T, class F>
  void sequence(std::vector<T>& values, F each) {
    auto size = values.size();
    number(size);
    for (T& value : values) each(value);
  }

  void raw(const void* data, size_t size) {
    const auto* bytes = static_cast<const uint8_t*>(data);
    out_.insert(out_.end(), bytes, bytes + size);
  }

  std::vector<uint8_t> take() { return std::move(out_); }

 private:
  std::vector<uint8_t> out_;
};

class Reader {
 public:
  static constexpr bool kReading = true;

  Reader(const void* data, size_t size) : data_(static_cast<const uint8_t*>(data)), left_(size) {}

  template <class T>
  void number(T& value) {
    int64_t wide = 0;
    raw(&wide, sizeof wide);
    if constexpr (std::is_same_v<T, double>) {
      std::memcpy(&value, &wide, sizeof wide);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (wide != 0 && wide != 1) fail("a flag is " + std::to_string(wide));
      value = wide != 0;
    } else if constexpr (std::is_enum_v<T>) {
      using U = std::underlying_type_t<T>;
      value = static_cast<T>(static_cast<U>(wide));
      if (static_cast<int64_t>(static_cast<U>(wide)) != wide)
        fail("a code is " + std::to_string(wide));
    } else {
      value = static_cast<T>(wide);
      if (static_cast<int64_t>(value) != wide) fail("a number is " + std::to_string(wide));
    }
  }

  void text(std::string& value) {
    value.resize(count(1));
    raw(value.data(), value.size());
  }

  template <class T, class F>
  void sequence(std::vector<T>& values, F each) {
    // Every element takes 8 bytes or more, so a count cannot make us allocate much more than the
    // image.
    values.resize(count(8));
    for (T& value : values) each(value);
  }

  void raw(void* to, size_t size) {
    if (size > left_) fail("it ends early");
    if (size > 0) std::memcpy(to, data_, size);
    data_ += size;
    left_ -= size;
  }

  size_t left() const { return left_; }

  [[noreturn]] static void fail(const std::string& reason) {
    throw std::invalid_argument("malformed program image: " + reason);
  }

 private:
  size_t count(size_t element_bytes) {
    int64_t value = 0;
    number(value);
    if (value < 0 || static_cast<uint64_t>(value) > left_ / element_bytes) {
      fail("a count is " + std::to_string(value) + " with " + std::to_string(left_) +
           " bytes left");
    }
    return static_cast<size_t>(value);
  }

  const uint8_t* data_;
  size_t left_;
};

template <class Io>
void transfer(Io& io, Instr& in) {
  io.number(in.op);
  io.number(in.dst);
  for (int& arg : in.args) io.number(arg);
  io.number(in.access);
  io.number(in.index);
  io.number(in.wrap);
  io.number(in.predicate);
  io.number(in.fimm);
  int64_t iimm = in.iimm.value();
  io.number(iimm);
  in.iimm = Expr(iimm);
}

template <class Io>
void transfer(Io& io, BoundStage& stage) {
  io.text(stage.name);
  io.number(stage.schedule);
  io.number(stage.lane_loop);
  io.number(stage.row_loop);
  io.number(stage.block_lanes);
  io.number(stage.block_rows);
  io.number(stage.serial);
  io.number(stage.reduce_chunks);
  io.sequence(stage.loops, [&](BoundLoop& loop) {
    io.number(loop.extent);
    io.number(loop.reduce);
  });
  io.sequence(stage.accesses, [&](BoundAccess& a) {
    io.number(a.buffer);
    io.number(a.indexed);
    io.number(a.offset);
    io.sequence(a.stride, [&](int64_t& s) { io.number(s); });
    io.number(a.host_elements);
    io.sequence(a.digits, [&](layout::Digit& d) {
      io.number(d.divisor);
      io.number(d.device_stride);
      io.number(d.limit);
    });
  });
  io.sequence(stage.phases, [&](Phase& phase) {
    io.number(phase.reduce);
    io.sequence(phase.body, [&](Instr& in) { transfer(io, in); });
  });
}

template <class Io>
void transfer(Io& io, BoundProgram& program) {
  char magic[sizeof kMagic];
  std::memcpy(magic, kMagic, sizeof magic);
  int64_t version = kProgramVersion;
  io.raw(magic, sizeof magic);
  io.number(version);
  if constexpr (Io::kReading) {
    if (std::memcmp(magic, kMagic, sizeof magic) != 0)
      Io::fail("it does not begin with the mark of one");
    if (version != kProgramVersion) {
      Io::fail("version " + std::to_string(version) + ", expected " +
               std::to_string(kProgramVersion));
    }
  }
  io.text(program.name);
  io.number(program.cores);
  io.number(program.lx_bytes_per_core);
  io.number(program.scratch_bytes);
  io.sequence(program.buffers, [&](BoundBuffer& b) {
    io.text(b.name);
    io.number(b.kind);
    io.number(b.dtype);
    io.number(b.format);
    io.number(b.elements);
    io.number(b.bytes);
    io.number(b.scratch_offset);
    io.number(b.parts);
  });
  io.sequence(program.stages, [&](BoundStage& stage) { transfer(io, stage); });
}

}  // namespace

std::vector<uint8_t> serialize(const BoundProgram& program) {
  Writer writer;
  transfer(writer, const_cast<BoundProgram&>(program));  // a Writer changes nothing
  return writer.take();
}

BoundProgram deserialize(const void* data, size_t size) {
  Reader reader(data, size);
  BoundProgram program;
  transfer(reader, program);
  if (reader.left() != 0) Reader::fail(std::to_string(reader.left()) + " bytes follow its end");
  verify(program);
  return program;
}

std::vector<uint8_t> link_to_image(const Program& program, const std::vector<ArgBinding>& args,
                                   const std::vector<int64_t>& symbols,
                                   const LinkOptions& options) {
  return serialize(link(program, args, symbols, options));
}

}  // namespace spyre::program
