// SPDX-License-Identifier: Apache-2.0
#include "core/whole_library.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <fstream>

namespace spyre::runtime {
namespace {

constexpr unsigned char kOwnClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;

/// Reads a struct at an offset; false if the file ends before.
template <class T>
bool read_at(std::ifstream& file, uint64_t offset, T* out) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(out), sizeof(T));
  return file.good();
}

}  // namespace

bool is_whole_library(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return true;
  const auto size = static_cast<uint64_t>(file.tellg());
  unsigned char magic[EI_NIDENT] = {};
  if (!read_at(file, 0, &magic)) return true;
  if (std::memcmp(magic, ELFMAG, SELFMAG) != 0 || magic[EI_CLASS] != kOwnClass) return true;
  ElfW(Ehdr) header{};
  if (!read_at(file, 0, &header)) return false;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    if (!read_at(file, header.e_phoff + i * sizeof(segment), &segment)) return false;
    if (segment.p_type == PT_LOAD && segment.p_offset + segment.p_filesz > size) return false;
  }
  return true;
}

}  // namespace spyre::runtime
