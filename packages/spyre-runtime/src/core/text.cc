// SPDX-License-Identifier: Apache-2.0
#include "spyre/runtime/text.h"

#include <array>
#include <cstdint>

namespace spyre::runtime {
namespace {

struct Form {
  unsigned char mask, lead;
  size_t bytes;
  uint32_t least;  ///< smaller ones have a shorter form, so this one is not allowed
};
constexpr std::array<Form, 4> kForms{{
    {0x80, 0x00, 1, 0},
    {0xe0, 0xc0, 2, 0x80},
    {0xf0, 0xe0, 3, 0x800},
    {0xf8, 0xf0, 4, 0x10000},
}};

/// Bytes of the character that `text` begins with; 0 if it begins with none.
size_t character_bytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  for (const Form& form : kForms) {
    if ((lead & form.mask) != form.lead) continue;
    if (text.size() < form.bytes) return 0;
    uint32_t code = lead & static_cast<unsigned char>(~form.mask);
    for (size_t i = 1; i < form.bytes; ++i) {
      const auto next = static_cast<unsigned char>(text[i]);
      if ((next & 0xc0) != 0x80) return 0;
      code = code << 6 | (next & 0x3fu);
    }
    const bool is_surrogate = code >= 0xd800 && code < 0xe000;
    return code < form.least || code > 0x10ffff || is_surrogate ? 0 : form.bytes;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = character_bytes(text);
    if (bytes == 0) {
      const auto byte = static_cast<unsigned char>(text.front());
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 0xf]};
    }
    out += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return out;
}

}  // namespace spyre::runtime
