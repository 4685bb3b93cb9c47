// lamina template: renders a chat template.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "cli/shell/command.h"
#include "cli/shell/terminal.h"
#include "core/error.h"
#include "core/json.h"
#include "core/read_file.h"
#include "jinja/template.h"

namespace lamina::cli {
namespace {

// Parses local time such as "2025-03-04T15:09:26".
std::tm parse_time(const JsonValue& value) {
  const std::string text(value.as_string());
  std::tm time = {};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (!end || *end != 0)
    value.fail(
        fmt::format("is {}; expected a time such as \"2025-03-04T15:09:26\"", value.describe()));
  return time;
}

int run_template(const Arguments& a, const Device&) {
  const std::string& file = a.positionals[0];
  const jinja::Template parsed = jinja::Template::parse(
      read_file(file, ExitCode::usage, 4 * jinja::kMaxSource), file, ExitCode::usage);
  // Variables that transformers gives to every template.
  jinja::Variables variables = {{"tools", jinja::TemplateValue::none()},
                                {"documents", jinja::TemplateValue::none()},
                                {"add_generation_prompt", jinja::TemplateValue::boolean(false)}};
  jinja::RenderOptions options{.now = jinja::local_time()};
  const std::string& file_of_context = a.text("context");
  const JsonOptions python = {.infinite_numbers = true};
  const JsonDocument context =
      file_of_context == "-" ? JsonDocument::parse(read_stdin(ExitCode::usage), "stdin", python)
                             : JsonDocument::read(file_of_context, python);
  if (!context.root().is_object())
    context.root().fail(fmt::format("must be an object, got {}", context.root().describe()),
                        {"a list of messages is one of its variables: {\"messages\": [...]}"});
  for (const auto& [name, value] : context.root().members()) {
    if (name == "now") options.now = parse_time(value);
    std::erase_if(variables, [&name = name](const auto& known) { return known.first == name; });
    variables.emplace_back(name, jinja::from_json(value));
  }
  print_model_text(parsed.render(variables, options).text, a.flag("raw"));
  return 0;
}

}  // namespace

Command template_command() {
  Option context =
      text_option("context", 0, "FILE",
                  "JSON object with the template's variables: messages, tools, "
                  "bos_token, add_generation_prompt ...; 'now' sets the clock; - is stdin.");
  context.key.required = true;
  return {.name = "template",
          .summary = "renders a chat template",
          .details =
              "Prints the text that a template makes from its variables, as they are in "
              "the file: `decode --chat` leaves out null keys of messages and gives "
              "reasoning both of its names first. The language is the one of published "
              "chat templates, see docs/chat.md.",
          .options = {context, raw_option()},
          .positionals = {{.name = "FILE.jinja", .doc = "The template."}},
          .examples = {"lamina template model/chat_template.jinja --context context.json"},
          .run = run_template};
}

}  // namespace lamina::cli
