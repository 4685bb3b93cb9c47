// Memory layout of a parsed document; for json.cc and json_parse.cc only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/huge_pages.h"
#include "core/json.h"

namespace lamina {
namespace json_table {

// A document is a table of nodes in reading order; a member is its key's node, then its value's.
// Nodes are small, because vocabularies have hundreds of thousands of them.
struct JsonNode {
  std::uint64_t payload;  // integer, bits of a double, address of a string, index after a container
  std::uint32_t offset;   // in the text, for messages: of this value or the previous one
  std::uint32_t count : 29;  // bytes of a string, elements or members of a container
  JsonKind kind : 3;
};
static_assert(sizeof(JsonNode) == 16);
// Limit for texts, so that every count fits.
inline constexpr std::size_t kMaxTextBytes = (std::size_t{1} << 29) - 1;

inline std::string_view string_of(const JsonNode& node) {
  return {std::bit_cast<const char*>(node.payload), node.count};
}

// Strings that differ from the text because they contain escapes.
class Arena {
 public:
  std::string_view keep(std::string_view text) {
    if (text.size() > free_) {
      const std::size_t size_bytes = std::max<std::size_t>(text.size(), 1 << 16);
      blocks_.push_back(std::make_unique_for_overwrite<char[]>(size_bytes));
      at_ = blocks_.back().get();
      free_ = size_bytes;
    }
    char* kept = at_;
    std::memcpy(kept, text.data(), text.size());
    at_ += text.size();
    free_ -= text.size();
    return {kept, text.size()};
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* at_ = nullptr;
  std::size_t free_ = 0;
};

}  // namespace json_table

struct JsonDocument::Data {
  std::string text;
  std::string file;
  JsonOptions options;
  LargeVector<json_table::JsonNode> nodes;
  json_table::Arena arena;

  std::string where(std::size_t offset) const {
    if (options.positions_are_bytes)
      return fmt::format("{}: byte {}", file, options.first_byte + offset);
    if (!options.part.empty()) return file;
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
    return fmt::format("{}:{}", file, 1 + std::count(text.begin(), end, '\n'));
  }

  std::uint32_t next(std::uint32_t node) const {
    const bool container = nodes[node].kind >= JsonKind::array;
    return container ? static_cast<std::uint32_t>(nodes[node].payload) : node + 1;
  }
};

}  // namespace lamina
