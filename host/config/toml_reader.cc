// Reads TOML as raw values; the only file that includes toml++.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <tuple>

#include "config/raw.h"
#include "config/toml_depth.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"

// Some malformed headers trigger asserts of toml++; bad input must end in an error, never in an
// abort.
#define TOML_ASSERT(expression) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace lamina::config {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;

struct Source {
  std::string name;  // of the file, or "--set a.b=1"
  Origin::Kind kind;
  std::filesystem::path folder;
  std::string typed;  // the value typed on a command line; "" for files

  bool is_file() const {
    return kind == Origin::Kind::model_file || kind == Origin::Kind::run_file;
  }
  Origin origin(const toml::node& node) const {
    return {kind, is_file() ? fmt::format("{}:{}", name, node.source().begin.line) : name};
  }
};

[[noreturn]] void unsupported(const Source& source, const toml::node& node, const std::string& key,
                              std::string_view found) {
  throw UserError(
      ExitCode::usage,
      {source.origin(node).text,
       fmt::format("'{}' is {}; expected a number, a string, a boolean or a list of them", key,
                   found),
       {}});
}

std::vector<std::pair<std::string, const toml::node*>> in_file_order(const toml::table& table);

Value to_value(const Source& source, const toml::node& node, const std::string& key) {
  if (auto* flag = node.as_boolean()) return Value(flag->get());
  if (auto* integer = node.as_integer()) return Value(std::int64_t{integer->get()});
  if (auto* number = node.as_floating_point()) return Value(number->get());
  if (auto* text = node.as_string()) return Value(text->get());
  if (auto* array = node.as_array()) {
    List list;
    for (const toml::node& element : *array) list.push_back(to_value(source, element, key));
    return Value(std::move(list));
  }
  if (auto* table = node.as_table()) {
    Members members;
    for (const auto& [name, inner] : in_file_order(*table))
      members.emplace_back(name, to_value(source, *inner, key));
    return Value(std::move(members));
  }
  unsupported(source, node, key, "a date or time");
}

// toml++ sorts keys by name; messages use the order of the file.
std::vector<std::pair<std::string, const toml::node*>> in_file_order(const toml::table& table) {
  std::vector<std::pair<std::string, const toml::node*>> nodes;
  for (auto&& [name, node] : table) nodes.emplace_back(toml_key(name.str()), &node);
  std::stable_sort(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
    auto x = a.second->source().begin, y = b.second->source().begin;
    return std::tie(x.line, x.column) < std::tie(y.line, y.column);
  });
  return nodes;
}

void flatten(const Source& source, const std::string& key, const toml::node& node, Raw& out) {
  if (auto* table = node.as_table()) {
    if (!key.empty()) out.sections.push_back({key, source.origin(node)});
    Source inside = source;
    inside.typed.clear();  // the text of the whole table
    for (const auto& [name, inner] : in_file_order(*table))
      flatten(inside, key.empty() ? name : key + "." + name, *inner, out);
    return;
  }
  out.entries.push_back(
      {key, to_value(source, node, key), source.origin(node), source.folder, source.typed});
}

// Returns the offending line and a line with a caret; long lines are cut around the column.
std::vector<std::string> show_line(std::string_view text, std::size_t line, std::size_t column) {
  for (std::size_t i = 1; i < line && !text.empty(); ++i)
    text.remove_prefix(std::min(text.size(), text.find('\n') + 1));
  std::string shown(text.substr(0, text.find_first_of("\r\n")));
  for (char& c : shown)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = ' ';
  std::size_t caret = column > 0 ? column - 1 : 0;
  constexpr std::size_t kWidth = 64;
  if (caret > kWidth) shown.erase(0, caret - kWidth), caret = kWidth;
  if (shown.size() > kWidth + 8) shown.resize(kWidth + 8);
  shown.erase(shown.find_last_not_of(' ') + 1);
  if (shown.empty()) return {};
  return {shown, std::string(std::min(caret, shown.size() + 1), ' ') + "^"};
}

std::string plain_description(std::string_view description) {
  constexpr std::string_view kPrefix = "Error while parsing ";
  if (description.starts_with(kPrefix)) description.remove_prefix(kPrefix.size());
  std::string out(description.substr(0, description.find(" (TOML_")));
  if (!out.empty()) out[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(out[0])));
  return out;
}

// Advice about the mistakes that readers of other formats make; "" for others.
std::string advice_on(const std::string& description) {
  if (description.starts_with("value: could not determine value type") ||
      description.starts_with("boolean: ") ||
      description.starts_with("floating-point: expected '") ||  // of nan and inf
      description.starts_with("floating-point: expected value-terminator"))
    return "a text needs quotes, eg key = \"text\"";
  if (description.starts_with("inline table: ") &&
      (description.ends_with("saw '\\n'") || description.ends_with("saw '\\r'")))
    return "a table in { } must be on one line; for several lines write a section, eg [model]";
  return "";
}

std::string too_deep_text() {
  return fmt::format("is nested deeper than {} levels", kMaxTomlDepth);
}

}  // namespace

void Raw::append(Raw other) {
  entries.insert(entries.end(), std::make_move_iterator(other.entries.begin()),
                 std::make_move_iterator(other.entries.end()));
  sections.insert(sections.end(), std::make_move_iterator(other.sections.begin()),
                  std::make_move_iterator(other.sections.end()));
  nulls.insert(nulls.end(), std::make_move_iterator(other.nulls.begin()),
               std::make_move_iterator(other.nulls.end()));
  mixed_lists.insert(mixed_lists.end(), std::make_move_iterator(other.mixed_lists.begin()),
                     std::make_move_iterator(other.mixed_lists.end()));
}

Raw parse_toml(std::string_view text, const std::string& name, Origin::Kind kind,
               const std::filesystem::path& folder) {
  if (std::optional<std::size_t> deep = find_too_deep(text)) {
    const std::string_view before = text.substr(0, *deep);
    const auto line = static_cast<std::size_t>(1 + std::ranges::count(before, '\n'));
    const std::size_t column = before.size() - (before.rfind('\n') + 1) + 1;
    throw UserError(ExitCode::usage, {fmt::format("{}:{}:{}", name, line, column), too_deep_text(),
                                      show_line(text, line, column)});
  }
  toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::parse_error& error = result.error();
    auto at = error.source().begin;
    const std::string description = plain_description(error.description());
    std::vector<std::string> notes = show_line(text, at.line, at.column);
    if (std::string advice = advice_on(description); !advice.empty())
      notes.push_back(std::move(advice));
    throw UserError(ExitCode::usage, {fmt::format("{}:{}:{}", name, at.line, at.column),
                                      "not TOML 1.0: " + description, std::move(notes)});
  }
  Raw out;
  flatten({name, kind, folder, ""}, "", result.table(), out);
  return out;
}

Raw read_toml(const std::filesystem::path& path, Origin::Kind kind) {
  const std::string text = read_file(path.string(), ExitCode::usage, kMaxFileBytes);
  try {
    return parse_toml(text, path.string(), kind, path.parent_path());
  } catch (const UserError& error) {
    if (path.extension() == ".toml") throw;
    // The file may have been named by mistake, so its line may contain a secret.
    ErrorText shown = error.text();
    shown.notes = {"expected a run file or a model file (.toml)"};
    throw UserError(error.code(), std::move(shown));
  }
}

bool is_dotted_key(std::string_view key) {
  if (key.empty() || key.front() == '.' || key.back() == '.') return false;
  if (key.find("..") != key.npos) return false;
  return std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

// Parses one value. Text that is not TOML is a string, unless it is clearly malformed TOML.
Raw parse_assignment(std::string_view key, const std::string& typed, const Origin& origin) {
  const Source source{origin.text, origin.kind, {}, typed};
  Raw out;
  if (find_too_deep(typed)) {
    const std::size_t first = typed.find_first_not_of(" \t");
    if (std::string_view("\"'[{").find(typed[first]) != std::string_view::npos)
      throw UserError(ExitCode::usage,
                      {printable(origin.text), "the value " + too_deep_text(), {}});
    // The dots of a path or of a sentence.
    out.entries.push_back({std::string(key), Value(typed), origin, {}, typed});
    return out;
  }
  toml::parse_result result = toml::parse("value = " + typed);
  const toml::node* value =
      result && result.table().size() == 1 ? result.table().get("value") : nullptr;
  // No key is a date or a time, so text like one is a string.
  if (value && !value->is_date() && !value->is_time() && !value->is_date_time()) {
    flatten(source, std::string(key), *value, out);
  } else if (typed.find_first_of("\"'[{") == 0) {
    throw UserError(
        ExitCode::usage,
        {origin.text,
         "the value is not TOML 1.0: " +
             (result ? "it has several lines" : plain_description(result.error().description())),
         {}});
  } else {
    out.entries.push_back({std::string(key), Value(typed), origin, {}, typed});
  }
  return out;
}

Raw parse_override(std::string_view assignment, const std::string& option) {
  auto equals = assignment.find('=');
  const std::string name = option.empty() ? fmt::format("--set {}", assignment) : option;
  if (equals == assignment.npos || !is_dotted_key(assignment.substr(0, equals)))
    throw UserError(ExitCode::usage,
                    {name, "is not section.key=value", {"eg: --set train.steps=100"}});
  return parse_assignment(assignment.substr(0, equals), std::string(assignment.substr(equals + 1)),
                          {Origin::Kind::command_line, name});
}

}  // namespace lamina::config
