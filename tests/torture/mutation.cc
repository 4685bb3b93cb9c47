#include "torture/mutation.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace lamina::torture {
namespace {

// A value of a JSON text, or a member with its key.
struct Span {
  std::size_t begin = 0, end = 0;
  std::size_t key = 0;  // offset of its key; begin if it has none
  std::vector<Span> inside = {};
};

// Finds the values of valid JSON text; stops at the first syntax error.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::optional<Span> root() {
    std::optional<Span> value = scan(0);
    space();
    return value && at_ == text_.size() ? value : std::nullopt;
  }

 private:
  static constexpr int kMaxDepth = 100;

  void space() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_])) ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool string() {
    if (!take('"')) return false;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    return take('"');
  }
  std::optional<Span> scan(int depth) {
    space();
    Span value{.begin = at_, .key = at_};
    if (depth > kMaxDepth || at_ >= text_.size()) return std::nullopt;
    const char first = text_[at_];
    if (first == '{' || first == '[') {
      ++at_;
      const char close = first == '{' ? '}' : ']';
      while (!take(close)) {
        if (!value.inside.empty() && !take(',')) return std::nullopt;
        space();
        const std::size_t key = at_;
        if (first == '{' && !(string() && take(':'))) return std::nullopt;
        std::optional<Span> inner = scan(depth + 1);
        if (!inner) return std::nullopt;
        if (first == '{') inner->key = key;
        value.inside.push_back(std::move(*inner));
      }
    } else if (first == '"') {
      if (!string()) return std::nullopt;
    } else {
      while (at_ < text_.size() && !std::strchr(",]} \t\r\n", text_[at_])) ++at_;
    }
    value.end = at_;
    return value.end > value.begin ? std::optional(std::move(value)) : std::nullopt;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

void list_values(const Span& value, std::vector<const Span*>& out) {
  out.push_back(&value);
  for (const Span& inner : value.inside) list_values(inner, out);
}

// Any value with equal probability; or a value found by walking down from the root, so that a
// vocabulary of thousands does not hide the other values.
const Span& any_value(Random& random, const Span& root) {
  if (random.chance(0.4)) {
    std::vector<const Span*> all;
    list_values(root, all);
    return *random.pick(all);
  }
  const Span* at = &root;
  while (!at->inside.empty() && random.chance(0.8))
    at = &at->inside[random.below(at->inside.size())];
  return *at;
}

const std::vector<std::string>& stumbling_blocks() {
  static const std::vector<std::string> values = {"null",
                                                  "true",
                                                  "false",
                                                  "0",
                                                  "-1",
                                                  "1",
                                                  "2",
                                                  "255",
                                                  "256",
                                                  "65536",
                                                  "2147483647",
                                                  "2147483648",
                                                  "4294967295",
                                                  "4294967296",
                                                  "9223372036854775807",
                                                  "-9223372036854775808",
                                                  "18446744073709551615",
                                                  "1e308",
                                                  "-1e-308",
                                                  "0.5",
                                                  "1e999",
                                                  "[]",
                                                  "{}",
                                                  "\"\"",
                                                  "\"a\"",
                                                  "\"../x\"",
                                                  "\"\\u0000\"",
                                                  "\"\\ud800\"",
                                                  "[0]",
                                                  "[[]]",
                                                  "[1,2,3]",
                                                  "[-1]",
                                                  "[null]",
                                                  "[\"a\"]",
                                                  "{\"a\":1}",
                                                  "[[[[[[[[[[]]]]]]]]]]"};
  return values;
}

std::string piece(const std::string& text, std::size_t begin, std::size_t end) {
  return text.substr(begin, end - begin);
}

std::string replaced(const std::string& text, std::size_t begin, std::size_t end,
                     std::string_view by) {
  return text.substr(0, begin).append(by).append(text, end);
}

// The text without the member or element and its comma.
std::string without(const std::string& text, const Span& parent, std::size_t i) {
  const Span& gone = parent.inside[i];
  if (i + 1 < parent.inside.size()) return replaced(text, gone.key, parent.inside[i + 1].key, "");
  return replaced(text, i > 0 ? parent.inside[i - 1].end : gone.key, gone.end, "");
}

std::string mutate_structure(Random& random, const std::string& text, const Span& root) {
  const Span& value = any_value(random, root);
  const std::size_t num_inside = value.inside.size();
  switch (random.below(7)) {
    case 0:
      if (num_inside > 0) return without(text, value, random.below(num_inside));
      break;
    case 1:
      if (num_inside > 0) {  // only the first few
        const std::size_t kept = random.below(num_inside);
        const std::size_t from = kept > 0 ? value.inside[kept - 1].end : value.inside[0].key;
        return replaced(text, from, value.inside.back().end, "");
      }
      break;
    case 2:
      if (num_inside > 0) {  // again
        const Span& twice = random.pick(value.inside);
        return replaced(text, twice.end, twice.end, "," + piece(text, twice.key, twice.end));
      }
      break;
    case 3: {
      const Span& other = any_value(random, root);
      return replaced(text, value.begin, value.end, piece(text, other.begin, other.end));
    }
    case 4:
      return replaced(text, value.begin, value.end,
                      "[" + piece(text, value.begin, value.end) + "]");
    default:
      break;
  }
  return replaced(text, value.begin, value.end, random.pick(stumbling_blocks()));
}

}  // namespace

std::string mutate_bytes(Random& random, std::string bytes) {
  for (std::size_t changes = 1 + random.below(4); changes > 0; --changes) {
    const std::size_t at = random.below(bytes.size());
    const std::size_t count =
        std::min(1 + random.below(random.chance(0.8) ? 8 : 200), bytes.size() - at);
    switch (random.below(7)) {
      case 0:
        bytes.erase(at, count);
        break;
      case 1:
        bytes.insert(at, bytes.substr(random.below(bytes.size() + 1), count));
        break;
      case 2:
        bytes.insert(at, random.pick(stumbling_blocks()));
        break;
      case 3:
        if (random.chance(0.3)) bytes.resize(at);
        break;
      case 4:
        for (std::size_t i = at; i < at + count; ++i) bytes[i] = static_cast<char>(random.next());
        break;
      case 5:
        if (count > 0) bytes[at] = "\x00\xff\x7f\x80\"\\[]{},:\n"[random.below(13)];
        break;
      default:
        if (count > 0) bytes[at] ^= static_cast<char>(1 << random.below(8));
    }
  }
  return bytes;
}

std::string mutate_json(Random& random, std::string text) {
  if (random.chance(0.15)) return mutate_bytes(random, std::move(text));
  for (std::size_t changes = 1 + random.below(3); changes > 0; --changes)
    if (const std::optional<Span> root = Scanner(text).root())
      text = mutate_structure(random, text, *root);
  return text;
}

std::string mutate_toml(Random& random, std::string text) {
  static const std::vector<std::string> values = {"inf",
                                                  "nan",
                                                  "-0.0",
                                                  "1979-05-27",
                                                  "'''a\nb'''",
                                                  "\"\\u0001\"",
                                                  "{ a = { b = [1] } }",
                                                  "[1, \"a\"]",
                                                  "0x7fffffffffffffff",
                                                  "99999999999999999999"};
  if (random.chance(0.3)) return mutate_bytes(random, std::move(text));
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  for (std::size_t changes = 1 + random.below(3); changes > 0 && !lines.empty(); --changes) {
    const std::size_t i = random.below(lines.size());
    if (random.chance(0.15)) {
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
    } else if (random.chance(0.15)) {
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(i), std::string(random.pick(lines)));
    } else if (const auto equals = lines[i].find('='); equals != std::string::npos) {
      const bool ours = random.chance(0.4);
      lines[i] = lines[i].substr(0, equals + 1) + " " +
                 random.pick(ours ? values : stumbling_blocks()) +
                 (lines[i].ends_with(',') ? "," : "");
    }
  }
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string mutate_safetensors(Random& random, const std::string& file) {
  std::uint64_t header_bytes = 0;
  if (file.size() < 8 || random.chance(0.1)) return mutate_bytes(random, file);
  std::memcpy(&header_bytes, file.data(), 8);
  if (header_bytes > file.size() - 8) return mutate_bytes(random, file);
  std::string header = mutate_json(random, file.substr(8, header_bytes));
  // The data's offset is part of the header's meaning: usually it remains aligned.
  if (random.chance(0.8)) header.append((8 - header.size() % 8) % 8, ' ');
  static const std::vector<std::uint64_t> lengths = {
      0, 1, 8, 1u << 20, ~std::uint64_t{0}, std::uint64_t{1} << 63, 100'000'001};
  header_bytes = random.chance(0.9) ? header.size() : random.pick(lengths);
  std::string out(8, '\0');
  std::memcpy(out.data(), &header_bytes, 8);
  out += header;
  std::uint64_t old_bytes = 0;
  std::memcpy(&old_bytes, file.data(), 8);
  return out + file.substr(8 + old_bytes);
}

}  // namespace lamina::torture
