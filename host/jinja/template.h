// Chat templates: a small Jinja, in which models define the text form of conversations.
//
//   const Template t = Template::parse("{{ bos }}{{ user }}", "chat_template.jinja");
//   const Rendered r = t.render({{"bos", trusted("<s>")}, {"user", given("hi <s>")}});
//   r.text == "<s>hi <s>"; r.given == {{3, 9}}
#pragma once

#include <ctime>
#include <memory>
#include <optional>
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

using Variables = std::vector<std::pair<std::string, TemplateValue>>;

// A string from the model's own files, and a string from outside. They throw Failure for more than
// kMaxText characters.
inline TemplateValue trusted(std::string_view utf8) { return TemplateValue::string(to_text(utf8)); }
inline TemplateValue given(std::string_view utf8) {
  return TemplateValue::string(to_text(utf8, true));
}
// Returns make(), a value made of `json`. Outside of a render nothing else catches the failure of a
// value: it becomes a UserError at the place of `json`.
template <typename Make>
TemplateValue made_from(const JsonValue& json, const Make& make) {
  try {
    return make();
  } catch (const TemplateFailure& failure) {
    json.fail("cannot be a value of a template: " + failure.message);
  }
}
// All strings in it count as given. UserError, at its place: an integer of more than 127 bits, or
// a string of more than kMaxText characters.
TemplateValue from_json(const JsonValue& json);

struct RenderedSpan {
  std::size_t begin, end;
  friend bool operator==(const RenderedSpan&, const RenderedSpan&) = default;
};

// Characters inside {% generation %}, as published masks count.
struct GeneratedSpan : RenderedSpan {
  // The element of RenderOptions::elements that the innermost loop over any of them visits.
  std::optional<std::size_t> element = {};
  friend bool operator==(const GeneratedSpan&, const GeneratedSpan&) = default;
};

struct Rendered {
  std::string text;                 // UTF-8
  std::vector<RenderedSpan> given;  // bytes of the text that came from outside, in order
  std::vector<GeneratedSpan> generated;
  // All text in the template, written or not.
  std::span<const std::string> own_text;  // borrowed from the template
};

struct RenderOptions {
  Limits limits = {};
  std::tm now = {};                              // the time for strftime_now()
  std::span<const TemplateValue> elements = {};  // of lists in the variables
};

class Template {
 public:
  // `name`: the file's, for errors. Throws UserError of class `code` with line and column for a
  // syntax error, here and in render().
  static Template parse(std::string_view source, std::string name, ExitCode code = ExitCode::usage);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // Const and safe to call from several threads. Throws UserError for errors raised by the
  // template, errors in it, and exceeded limits. The values of `variables` must not belong to a
  // render.
  Rendered render(const Variables& variables, const RenderOptions& options) const;
  // Returns what was parsed, in UTF-8.
  std::string source() const;
  // As Rendered::own_text.
  std::span<const std::string> own_text() const;

 private:
  struct Parsed;
  explicit Template(std::unique_ptr<const Parsed> parsed);
  std::unique_ptr<const Parsed> parsed_;
};

// The local time, for RenderOptions.
std::tm local_time();

}  // namespace lamina::jinja
