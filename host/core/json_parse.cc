// Parses JSON text into the table of a document.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <boost/json/basic_parser_impl.hpp>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "core/hash_index.h"
#include "core/json.h"
#include "core/json_table.h"
#include "core/printable.h"
#include "core/read_file.h"

namespace lamina {
namespace {

using boost::json::error_code;
using json_table::JsonNode;
using json_table::string_of;

// Handler of the parser; builds the table. An error sets `refusal` and an error code.
template <typename Data>
struct Handler {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);

  Data* data = nullptr;
  std::vector<std::uint32_t> open;  // open containers
  std::string parts;                // parts of an escaped string, or of a number
  std::uint32_t last_offset = 0;
  std::string refusal;
  std::uint32_t refusal_offset = 0;
  std::map<std::uint32_t, double> words;  // numbers that were words in the text, by offset

  bool refuse(error_code& ec, std::uint32_t offset, std::string why) {
    refusal = std::move(why);
    refusal_offset = offset;
    ec = boost::json::error::syntax;
    return false;
  }

  void note_position(std::string_view s) {
    const char* begin = data->text.data();
    if (!std::less<>()(s.data(), begin) && !std::less<>()(begin + data->text.size(), s.data()))
      last_offset = static_cast<std::uint32_t>(s.data() - begin);
  }

  void add(JsonKind kind, std::uint64_t payload, std::uint32_t count = 0) {
    JsonNode& node = data->nodes.emplace_back();
    node.payload = payload;
    node.offset = last_offset;
    node.count = count;
    node.kind = kind;
  }

  bool begin(JsonKind kind) {
    open.push_back(static_cast<std::uint32_t>(data->nodes.size()));
    add(kind, 0);
    return true;
  }
  void end(std::size_t count) {
    JsonNode& node = data->nodes[open.back()];
    node.payload = data->nodes.size();
    node.count = static_cast<std::uint32_t>(count);
    open.pop_back();
  }

  bool duplicate(error_code& ec, std::uint32_t key) {
    return refuse(ec, data->nodes[key].offset,
                  fmt::format("the key \"{}\" appears twice in one object; keys must be unique",
                              printable(string_of(data->nodes[key]))));
  }

  bool check_keys(std::uint32_t object, std::size_t count, error_code& ec) {
    const LargeVector<JsonNode>& nodes = data->nodes;
    if (count < 2) return true;
    if (count <= 12) {
      std::uint32_t keys[12];
      std::size_t num_keys = 0;
      for (std::uint32_t key = object + 1; key < nodes.size(); key = data->next(key + 1)) {
        for (std::size_t i = 0; i < num_keys; ++i)
          if (string_of(nodes[keys[i]]) == string_of(nodes[key])) return duplicate(ec, key);
        keys[num_keys++] = key;
      }
      return true;
    }
    // In blocks, so that slots are prefetched.
    HashIndex seen(count);
    constexpr std::size_t kBlock = 64;
    std::uint32_t keys[kBlock];
    std::uint64_t hashes[kBlock];
    for (std::uint32_t key = object + 1; key < nodes.size();) {
      std::size_t num_keys = 0;
      for (; key < nodes.size() && num_keys < kBlock; key = data->next(key + 1)) {
        const std::string_view text = string_of(nodes[key]);
        hashes[num_keys] = XXH3_64bits(text.data(), text.size());
        seen.prefetch(hashes[num_keys]);
        keys[num_keys++] = key;
      }
      for (std::size_t i = 0; i < num_keys; ++i) {
        const std::string_view text = string_of(nodes[keys[i]]);
        const auto same = [&](std::int32_t other) {
          return string_of(nodes[static_cast<std::uint32_t>(other)]) == text;
        };
        if (seen.insert(hashes[i], static_cast<std::int32_t>(keys[i]), same) >= 0)
          return duplicate(ec, keys[i]);
      }
    }
    return true;
  }

  bool string(std::string_view s) {
    if (!parts.empty()) {
      parts += s;
      s = data->arena.keep(parts);
      parts.clear();
    } else {
      note_position(s);
      const char* begin = data->text.data();
      if (std::less<>()(s.data(), begin) || std::less<>()(begin + data->text.size(), s.data()))
        s = data->arena.keep(s);
    }
    add(JsonKind::string, std::bit_cast<std::uint64_t>(s.data()),
        static_cast<std::uint32_t>(s.size()));
    return true;
  }

  // Returns the whole text of a number whose last part is `s`.
  std::string_view number_text(std::string_view s) {
    if (parts.empty()) {
      note_position(s);
      return s;
    }
    parts += s;
    return parts;
  }

  // Boost 1.81 rounds some decimals to a neighbouring double, so the text is parsed again.
  bool real(std::string_view text, double approximate, error_code& ec) {
    if (const auto word = words.find(last_offset); word != words.end()) {
      parts.clear();
      add(JsonKind::real, std::bit_cast<std::uint64_t>(word->second));
      return true;
    }
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status == std::errc::result_out_of_range) {
      if (std::abs(approximate) > 1)
        return refuse(ec, last_offset,
                      fmt::format("the number {} is too large for a double", printable(text, 40)));
      value = std::copysign(0.0, approximate);
    }
    parts.clear();
    add(JsonKind::real, std::bit_cast<std::uint64_t>(value));
    return true;
  }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return begin(JsonKind::array); }
  bool on_array_end(std::size_t count, error_code&) {
    end(count);
    return true;
  }
  bool on_object_begin(error_code&) { return begin(JsonKind::object); }
  bool on_object_end(std::size_t count, error_code& ec) {
    const std::uint32_t object = open.back();
    end(count);
    return check_keys(object, count, ec);
  }
  bool on_string_part(boost::json::string_view s, std::size_t, error_code&) {
    parts.append(s.data(), s.size());
    return true;
  }
  bool on_string(boost::json::string_view s, std::size_t, error_code&) {
    return string({s.data(), s.size()});
  }
  bool on_key_part(boost::json::string_view s, std::size_t, error_code&) {
    parts.append(s.data(), s.size());
    return true;
  }
  bool on_key(boost::json::string_view s, std::size_t, error_code&) {
    return string({s.data(), s.size()});
  }
  bool on_number_part(boost::json::string_view s, error_code&) {
    if (parts.empty()) note_position({s.data(), s.size()});
    parts.append(s.data(), s.size());
    return true;
  }
  bool on_int64(std::int64_t value, boost::json::string_view s, error_code& ec) {
    const std::string_view text = number_text({s.data(), s.size()});
    if (value == 0 && text.starts_with('-')) return real("-0.0", -0.0, ec);
    parts.clear();
    add(JsonKind::integer, static_cast<std::uint64_t>(value));
    return true;
  }
  bool on_uint64(std::uint64_t value, boost::json::string_view s, error_code&) {
    number_text({s.data(), s.size()});
    parts.clear();
    add(JsonKind::unsigned_integer, value);
    return true;
  }
  bool on_double(double value, boost::json::string_view s, error_code& ec) {
    return real(number_text({s.data(), s.size()}), value, ec);
  }
  bool on_bool(bool value, error_code&) {
    add(JsonKind::boolean, value);
    return true;
  }
  bool on_null(error_code&) {
    add(JsonKind::null, 0);
    return true;
  }
  bool on_comment_part(boost::json::string_view, error_code&) { return true; }
  bool on_comment(boost::json::string_view, error_code&) { return true; }
};

// Returns whether the text from `begin` to `end` is a separate word.
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const auto in_number = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '+' || c == '-';
  };
  return (begin == 0 || !in_number(text[begin - 1])) &&
         (end == text.size() || !in_number(text[end]));
}

// Extracts words for numbers outside strings, by the offset of their values. Each is replaced by a
// plain number of the same length, because the parser does not accept these words.
std::map<std::uint32_t, double> take_number_words(std::string& text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::pair<std::string_view, double> kWords[] = {
      {"-Infinity", -kInfinity},
      {"Infinity", kInfinity},
      {"NaN", std::numeric_limits<double>::quiet_NaN()},
  };
  std::map<std::uint32_t, double> out;
  if (text.find("NaN") == text.npos && text.find("Infinity") == text.npos) return out;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      for (const auto& [word, value] : kWords) {
        if (text.compare(i, word.size(), word) != 0 || !stands_alone(text, i, i + word.size()))
          continue;
        out[static_cast<std::uint32_t>(i)] = value;
        text.replace(i, word.size(), "0.0" + std::string(word.size() - 3, '0'));
        i += word.size() - 1;
        break;
      }
    }
  }
  return out;
}

// Returns a note about the first bytes of a file that is not JSON.
std::string_view looks_like(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) return "it starts with a byte order mark: remove it";
  if (text.starts_with("version https://git-lfs"))
    return "it is a Git LFS pointer: fetch the file itself with `git lfs pull`";
  if (text.starts_with("<")) return "it looks like an HTML or XML page: download the file again";
  if (text.find_first_not_of(" \t\r\n") == text.npos) return "it is empty";
  return "";
}

// Returns the offset of the \u escape of a surrogate without its pair which ended the parser at
// `used`, or npos.
std::size_t unpaired_surrogate(std::string_view text, std::size_t used, const error_code& ec) {
  const auto is_surrogate = [&](std::size_t at, bool leads) {
    if (text.substr(at, 2) != "\\u" || text.size() < at + 6) return false;
    unsigned unit = 0;
    const char* end = text.data() + at + 6;
    if (std::from_chars(end - 4, end, unit, 16).ptr != end) return false;
    const std::size_t before = text.find_last_not_of('\\', at) + 1;
    return unit >= 0xd800 && unit < (leads ? 0xdc00 : 0xe000) && (at - before) % 2 == 0;
  };
  // A leading one before another character, or before another escape, is a syntax error.
  const bool is_named = ec == boost::json::error::illegal_leading_surrogate ||
                        ec == boost::json::error::illegal_trailing_surrogate ||
                        ec == boost::json::error::expected_utf16_escape;
  if (!is_named && ec != boost::json::error::syntax) return text.npos;
  for (std::size_t back = 8; back > 0; --back)
    if (back <= used && (is_named || back == 6 || back == 7) &&
        is_surrogate(used - back, /*leads=*/!is_named))
      return used - back;
  return text.npos;
}

}  // namespace

JsonDocument JsonDocument::read(const std::string& path, const JsonOptions& options) {
  return parse(read_file(path, options.code, options.max_bytes), path, options);
}

JsonDocument JsonDocument::parse(std::string text, std::string file, const JsonOptions& options) {
  auto data = std::make_shared<Data>();
  data->text = std::move(text);
  data->file = std::move(file);
  data->options = options;
  if (const std::size_t limit = std::min(options.max_bytes, json_table::kMaxTextBytes);
      data->text.size() > limit)
    user_error(options.code, data->file, "has {} bytes of JSON; the maximum is {}",
               data->text.size(), limit);

  boost::json::parse_options parse_options;
  parse_options.max_depth = static_cast<std::size_t>(options.max_depth);
  boost::json::basic_parser<Handler<Data>> parser(parse_options);
  Handler<Data>& handler = parser.handler();
  handler.data = data.get();
  if (options.infinite_numbers) handler.words = take_number_words(data->text);
  data->nodes.reserve(data->text.size() / 8 + 4);
  error_code ec;
  std::size_t used = parser.write_some(false, data->text.data(), data->text.size(), ec);
  if (!ec && used < data->text.size()) ec = boost::json::error::extra_data;
  if (!ec) return JsonDocument(std::move(data), 0);

  if (!handler.refusal.empty())
    throw UserError(options.code, {data->where(handler.refusal_offset), handler.refusal, {}});
  const std::size_t surrogate = unpaired_surrogate(data->text, used, ec);
  if (surrogate != std::string::npos) used = surrogate;
  ErrorText error{data->where(used), "", {}};
  if (ec == boost::json::error::too_deep)
    error.what = fmt::format("JSON is nested deeper than {} levels", options.max_depth);
  else if (ec == boost::json::error::incomplete)
    error.what = fmt::format("JSON is truncated after {} bytes", data->text.size());
  else if (surrogate != std::string::npos)
    error.what = fmt::format("not valid JSON: {} is half of a character without the other half",
                             data->text.substr(used, 6));
  else
    error.what = fmt::format("not valid JSON: {}", ec.message());
  if (!options.positions_are_bytes && ec != boost::json::error::incomplete)
    error.notes.push_back(
        fmt::format("at byte {} of the {}", used, options.part.empty() ? "file" : options.part));
  if (surrogate != std::string::npos) error.notes.emplace_back("replace it, eg by \\ufffd");
  if (const std::string_view hint = looks_like(data->text); !hint.empty())
    error.notes.emplace_back(hint);
  throw UserError(options.code, std::move(error));
}

}  // namespace lamina
