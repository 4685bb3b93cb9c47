// Chat templates: a small Jinja, in which models say how conversations are written down.
//
//   const Template t = Template::parse("{{ bos }}{{ user }}", "chat_template.jinja");
//   const Rendered r = t.render({{"bos", trusted("<s>")}, {"user", given("hi <s>")}});
//   r.text == "<s>hi <s>"; r.given == {{3, 9}}
#pragma once

#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "jinja/values/budget.h"
#include "jinja/values/value.h"

namespace lamina::jinja {

using Variables = std::vector<std::pair<std::string, Value>>;

// A string that comes from the model's own files, and one that comes from outside.
inline Value trusted(std::string_view utf8) { return Value::string(to_text(utf8)); }
inline Value given(std::string_view utf8) { return Value::string(to_text(utf8, true)); }
// All strings of it count as given.
Value from_json(const JsonValue& json);

struct Span {
  std::size_t begin, end;
  friend bool operator==(const Span&, const Span&) = default;
};

struct Rendered {
  std::string text;             // UTF-8
  std::vector<Span> given;      // bytes of the text that came from outside, in order
  std::vector<Span> generated;  // characters inside {% generation %}, as published masks count
  // All text that the template holds, whether it was written or not.
  std::span<const std::string> own_text;  // borrowed from the template
};

struct RenderOptions {
  Limits limits = {};
  std::tm now = {};  // what strftime_now() sees
};

class Template {
 public:
  // `name`: of the file, for errors. A UserError of class `code` with line and column for what is
  // no template, here and in render().
  static Template parse(std::string_view source, std::string name, ExitCode code = ExitCode::usage);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Const and safe to call from several threads. A UserError for what the template raises, does
  // wrongly, or does too much of. The values of `variables` must not be those of a render.
  Rendered render(const Variables& variables, const RenderOptions& options) const;

 private:
  struct Parsed;
  explicit Template(std::unique_ptr<const Parsed> parsed);
  std::unique_ptr<const Parsed> parsed_;
};

// The local time, for RenderOptions.
std::tm local_time();

}  // namespace lamina::jinja
