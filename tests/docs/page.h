// The fenced blocks of a page of docs/, and the additions of docs/add_an_op.md to the tree.
//
// A mark is a comment in the line before the fence:
//
//   <!-- from FILE -->                   the block is lines of FILE
//   <!-- new FILE -->                    the block is FILE, which the tree does not have
//   <!-- into FILE after|before TEXT --> the block goes there, after or before the one line of FILE
//                                        that begins with TEXT
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::testing {

struct Block {
  std::string page;
  int line = 0;                         // of its first line
  std::string section, language, mark;  // section: the last heading "## ..." before it
  std::vector<std::string> lines;

  std::string text() const;
  std::string where() const;  // "docs/add_an_op.md:30"
};

std::vector<std::string> lines_of(const std::string& text);
std::string text_of(const std::filesystem::path& path);

// `page` is relative to `source`, eg: "docs/add_an_op.md".
std::vector<Block> blocks_of(const std::filesystem::path& source, const std::string& page);

// "X" of a mark "<!-- key X -->"; empty for other marks.
std::string marked(const Block& block, std::string_view key);

// The addition of a block to a file of the tree.
struct Addition {
  std::string file;
  std::string place;  // "after" or "before"; empty: the file is new
  std::string anchor;
  Block block;

  bool makes_file() const { return place.empty(); }
};

// Returns the additions of a page, in order.
std::vector<Addition> additions_of(const std::filesystem::path& source, const std::string& page);

// Writes the files of a page's additions below `out`, and replaces those from an earlier page;
// folders outside the tree are kept. Throws std::runtime_error if the tree already has a new file,
// or not exactly one line to insert after or before.
void apply_additions(const std::vector<Addition>& additions, const std::filesystem::path& source,
                     const std::filesystem::path& out);

}  // namespace lamina::testing
