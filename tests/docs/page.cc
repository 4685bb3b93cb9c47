#include "docs/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

// Returns the place of an addition in `lines`.
std::ptrdiff_t place_in(const std::vector<std::string>& lines, const Addition& addition) {
  auto begins = [&](const std::string& line) {
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    return line.substr(indent).starts_with(addition.anchor);
  };
  if (std::ranges::count_if(lines, begins) != 1)
    throw std::runtime_error(fmt::format("{}: {} has not one line that begins with '{}'",
                                         addition.block.where(), addition.file, addition.anchor));
  return std::ranges::find_if(lines, begins) - lines.begin() + (addition.place == "after" ? 1 : 0);
}

Addition addition_of(const Block& block) {
  if (std::string file = marked(block, "new"); !file.empty()) return {file, "", "", block};
  std::istringstream in(marked(block, "into"));
  Addition out{.block = block};
  in >> out.file >> out.place;
  std::getline(in >> std::ws, out.anchor);
  if (out.anchor.empty() || (out.place != "after" && out.place != "before"))
    throw std::runtime_error(
        fmt::format("{}: write <!-- into FILE after|before TEXT -->", block.where()));
  return out;
}

}  // namespace

std::string Block::text() const { return fmt::format("{}\n", fmt::join(lines, "\n")); }
std::string Block::where() const { return fmt::format("{}:{}", page, line); }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Block> blocks_of(const fs::path& source, const std::string& page) {
  std::vector<Block> out;
  std::string before, section;
  bool inside = false;
  int number = 0;
  for (const std::string& line : lines_of(text_of(source / page))) {
    ++number;
    if (line.starts_with("```")) {
      if (!inside) out.push_back({page, number + 1, section, line.substr(3), before, {}});
      inside = !inside;
    } else if (inside) {
      out.back().lines.push_back(line);
    } else if (line.starts_with("## ")) {
      section = line.substr(3);
    }
    before = line;
  }
  return out;
}

std::string marked(const Block& block, std::string_view key) {
  const std::string begin = fmt::format("<!-- {} ", key);
  if (!block.mark.starts_with(begin) || !block.mark.ends_with(" -->")) return {};
  return block.mark.substr(begin.size(), block.mark.size() - begin.size() - 4);
}

std::vector<Addition> additions_of(const fs::path& source, const std::string& page) {
  std::vector<Addition> out;
  for (const Block& block : blocks_of(source, page))
    if (!marked(block, "new").empty() || !marked(block, "into").empty())
      out.push_back(addition_of(block));
  return out;
}

void apply_additions(const std::vector<Addition>& additions, const fs::path& source,
                     const fs::path& out) {
  std::map<std::string, std::vector<std::string>> files;
  for (const Addition& addition : additions) {
    const bool in_tree = fs::exists(source / addition.file);
    if (in_tree == addition.makes_file())
      throw std::runtime_error(fmt::format("{}: the tree {} {}", addition.block.where(),
                                           in_tree ? "already has" : "does not have",
                                           addition.file));
    auto [file, is_first] = files.try_emplace(addition.file);
    std::vector<std::string>& lines = file->second;
    if (is_first && in_tree) lines = lines_of(text_of(source / addition.file));
    const std::ptrdiff_t at = addition.makes_file() ? 0 : place_in(lines, addition);
    lines.insert(lines.begin() + at, addition.block.lines.begin(), addition.block.lines.end());
  }
  // An earlier page may have left files that this one does not write.
  fs::create_directories(out);
  std::vector<fs::path> earlier;
  for (const auto& entry : fs::directory_iterator(out))
    if (fs::exists(source / entry.path().filename())) earlier.push_back(entry.path());
  for (const fs::path& folder : earlier) fs::remove_all(folder);
  for (const auto& [file, lines] : files) {
    fs::create_directories((out / file).parent_path());
    std::ofstream to(out / file);
    to << fmt::format("{}\n", fmt::join(lines, "\n"));
    to.close();
    if (!to) throw std::runtime_error(fmt::format("{}: cannot be written", (out / file).string()));
  }
}

}  // namespace lamina::testing
