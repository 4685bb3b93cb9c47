#include "jinja/template.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"
#include "jinja/interpreter.h"
#include "jinja/values/stack_space.h"

namespace lamina::jinja {

struct Template::Parsed {
  Tree tree;
  std::string name;
  ExitCode code;

  [[noreturn]] void fail_at(Position at, const std::string& message) const {
    const LineColumn place = line_column(tree.source, at);
    throw UserError(code, {fmt::format("{}:{}:{}", name, place.line, place.column), message, {}});
  }
};

Template::Template(std::unique_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;
Template::~Template() = default;

Template Template::parse(std::string_view source, std::string name, ExitCode code) {
  auto parsed = std::make_unique<Parsed>();
  parsed->name = std::move(name);
  parsed->code = code;
  if (const std::size_t bad = find_invalid_utf8(source); bad != source.npos)
    throw UserError(code,
                    {parsed->name,
                     fmt::format("is not UTF-8: byte {} is 0x{:02x}; a template must be UTF-8", bad,
                                 static_cast<unsigned char>(source[bad])),
                     {"convert it, eg with `iconv -t utf-8`"}});
  const Text text = to_text(source);
  try {
    with_stack_space([&] { parsed->tree = jinja::parse(text); });
  } catch (const SyntaxFailure& failure) {
    parsed->tree.source = normalize_newlines(text);
    parsed->fail_at(failure.at, failure.message);
  }
  return Template(std::move(parsed));
}

namespace {

// Number of leading characters with the same mark, a block at a time.
std::size_t alike_prefix(TextView text) {
  constexpr std::size_t kBlock = 64;
  const Char mark = text.front() & kGiven;
  std::size_t at = 0;
  while (at < text.size()) {
    const TextView block = text.substr(at, kBlock);
    Char other = 0;
    for (const Char c : block) other |= c ^ mark;
    if (other & kGiven) break;
    at += block.size();
  }
  while (at < text.size() && (text[at] & kGiven) == mark) ++at;
  return at;
}

std::size_t num_utf8_bytes(Char code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

// UTF-8 with the spans of given text.
Rendered to_rendered(const Text& text) {
  Rendered out;
  std::size_t num_bytes = 0, num_given = 0;
  for (TextView rest = text; !rest.empty();) {
    const TextView alike = rest.substr(0, alike_prefix(rest));
    num_given += (rest.front() & kGiven) != 0;
    for (const Char c : alike) num_bytes += num_utf8_bytes(code_of(c));
    rest.remove_prefix(alike.size());
  }
  const Held held(num_bytes + num_given * sizeof(RenderedSpan));
  out.text.reserve(num_bytes);
  out.given.reserve(num_given);
  for (TextView rest = text; !rest.empty();) {
    const TextView alike = rest.substr(0, alike_prefix(rest));
    const std::size_t at = out.text.size();
    append_utf8(out.text, alike);
    if (rest.front() & kGiven) out.given.push_back({at, out.text.size()});
    rest.remove_prefix(alike.size());
  }
  return out;
}

}  // namespace

Rendered Template::render(const Variables& variables, const RenderOptions& options) const {
  Rendered out;
  with_stack_space([&] {
    Budget budget(options.limits);
    Interpreter interpreter(parsed_->tree, options);
    try {
      out = to_rendered(interpreter.render(variables));
    } catch (const TemplateFailure& failure) {
      parsed_->fail_at(interpreter.at(), failure.message);
    }
    out.own_text = own_text();
    out.generated.assign(interpreter.generated().begin(), interpreter.generated().end());
  });
  return out;
}

std::string Template::source() const { return to_utf8(parsed_->tree.source); }
std::span<const std::string> Template::own_text() const { return parsed_->tree.own_text; }

namespace {

// Python reads integers of any size.
Integer integer_of(const JsonValue& json, std::string_view digits) {
  const bool is_negative = digits.starts_with('-');
  Integer value = 0;
  for (const char c : digits.substr(is_negative ? 1 : 0))
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, c - '0', &value))
      json.fail(fmt::format("must be an integer of at most 127 bits, got {}", digits));
  return is_negative ? -value : value;
}

TemplateValue value_of(const JsonValue& json) {
  switch (json.kind()) {
    case JsonKind::null:
      return TemplateValue::none();
    case JsonKind::boolean:
      return TemplateValue::boolean(json.as_bool());
    case JsonKind::integer:
      return TemplateValue::integer(json.as_int64());
    case JsonKind::unsigned_integer:
      return TemplateValue::integer(json.as_uint64());
    case JsonKind::real:
      if (const std::string_view digits = json.integer_digits(); !digits.empty())
        return TemplateValue::integer(integer_of(json, digits));
      return TemplateValue::real(json.as_double());
    case JsonKind::string:
      return given(json.as_string());
    case JsonKind::array: {
      Vector<TemplateValue> items;
      for (const JsonValue item : json.elements()) items.push_back(from_json(item));
      return TemplateValue::list(std::move(items));
    }
    case JsonKind::object: {
      Vector<Dict::Entry> entries;
      for (const auto& [key, value] : json.members())
        entries.emplace_back(given(key), from_json(value));
      return make_dict(std::move(entries));
    }
  }
  return {};
}

}  // namespace

TemplateValue from_json(const JsonValue& json) {
  return made_from(json, [&] { return value_of(json); });
}

std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm out = {};
  localtime_r(&now, &out);
  return out;
}

}  // namespace lamina::jinja
