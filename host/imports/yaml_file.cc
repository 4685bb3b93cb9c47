// Converts YAML to values; the only file that includes yaml-cpp.
#include "imports/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/read_file.h"

namespace lamina::imports {
namespace {

using config::List;
using config::Value;

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxValues = 100'000;  // base.yml has about 2,000

std::string place(const std::string& file, const YAML::Mark& mark) {
  return mark.line < 0 ? file : fmt::format("{}:{}", file, mark.line + 1);
}

bool parse_real(std::string_view text, double& out) {
  if (text.starts_with('+')) text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// Parses an integer as PyYAML does: with 0x, with 0b, and octal after a 0.
bool parse_integer(std::string_view text, std::int64_t& out) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0b")) {
    base = text[1] == 'x' ? 16 : 2;
    text.remove_prefix(2);
  } else if (text.size() > 1 && text.starts_with('0')) {
    base = 8;
  }
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), magnitude, base);
  if (error != std::errc() || end != text.data() + text.size() ||
      !std::in_range<std::int64_t>(magnitude))
    return false;
  out = static_cast<std::int64_t>(magnitude);
  if (is_negative) out = -out;
  return true;
}

Value plain_scalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null") return Value("None");
  for (const char* word : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
    if (text == word) return Value(true);
  for (const char* word : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
    if (text == word) return Value(false);
  std::string digits = text;
  std::erase(digits, '_');
  std::int64_t whole = 0;
  double real = 0;
  if (parse_integer(digits, whole)) return Value(whole);
  const bool is_number = digits.find_first_not_of("+-.0123456789eE") == digits.npos &&
                         digits.find_first_of("0123456789") != digits.npos;
  const std::size_t sign = std::min(digits.find_first_not_of("+-"), digits.size());
  const std::string_view unsigned_digits = std::string_view(digits).substr(sign);
  const bool is_octal =
      unsigned_digits.starts_with('0') && digits.find_first_of(".eE") == digits.npos;
  if (is_number && !is_octal && parse_real(digits, real)) return Value(real);
  return Value(text);
}

// Reads the values of one file or setting.
class Values {
 public:
  explicit Values(const std::string& file) : file_(file) {}

  Value read(const YAML::Node& node, int depth = 0) {
    count(node);
    if (depth > kMaxDepth)
      refuse(node, fmt::format("lists are nested deeper than {} levels", kMaxDepth));
    if (node.IsNull()) return Value("None");
    // The tag of a scalar in quotes is "!".
    if (node.IsScalar())
      return node.Tag() == "!" ? Value(node.Scalar()) : plain_scalar(node.Scalar());
    if (node.IsMap()) return Value(YAML::Dump(node));
    List list;
    for (const YAML::Node& element : node) list.push_back(read(element, depth + 1));
    return Value(std::move(list));
  }

 private:
  // Counts values after expanding aliases, which are small in the file but expand here.
  void count(const YAML::Node& node) {
    if (++num_values_ > kMaxValues)
      refuse(node,
             fmt::format("has more than {} values after expanding aliases (*name)", kMaxValues));
  }

  [[noreturn]] void refuse(const YAML::Node& node, const std::string& what) const {
    throw UserError(ExitCode::usage, {place(file_, node.Mark()), what, {}});
  }

  const std::string& file_;
  std::size_t num_values_ = 0;
};

[[noreturn]] void no_yaml(const std::string& file, const YAML::Exception& error) {
  throw UserError(ExitCode::usage, {place(file, error.mark), "not YAML: " + error.msg, {}});
}

}  // namespace

std::vector<YamlSetting> read_yaml(const std::filesystem::path& path) {
  const std::string file = path.string();
  const std::string text = read_file(file, ExitCode::usage, kMaxFileBytes);
  std::vector<YamlSetting> out;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1)
      throw UserError(ExitCode::usage, {place(file, documents[1].Mark()),
                                        "a second document begins (---); expected one per file",
                                        {}});
    if (documents.empty() || documents[0].IsNull()) return out;
    const YAML::Node& root = documents[0];
    if (!root.IsMap())
      throw UserError(ExitCode::usage, {file, "must be a mapping of keys to values", {}});
    std::set<std::string> seen;
    Values values(file);
    const auto add = [&](const std::string& prefix, const auto& pair) {
      const std::string key =
          prefix + (pair.first.IsScalar() ? pair.first.Scalar() : YAML::Dump(pair.first));
      const std::string where = place(file, pair.first.Mark());
      if (!seen.insert(key).second)
        throw UserError(ExitCode::usage, {where, fmt::format("'{}' appears twice", key), {}});
      out.push_back({key, values.read(pair.second), where});
    };
    for (const auto& pair : root) {
      if (!pair.second.IsMap() || pair.second.size() == 0) {
        add("", pair);
        continue;
      }
      for (const auto& member : pair.second) add(pair.first.Scalar() + ".", member);
    }
  } catch (const YAML::Exception& error) {
    no_yaml(file, error);
  }
  return out;
}

YamlSetting parse_setting(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos || equals == 0)
    throw UserError(ExitCode::usage, {text, "expected KEY=VALUE", {"eg: base_emb_dim=512"}});
  try {
    return {text.substr(0, equals), Values(text).read(YAML::Load(text.substr(equals + 1))), text};
  } catch (const YAML::Exception& error) {
    no_yaml(text, error);
  }
}

}  // namespace lamina::imports
