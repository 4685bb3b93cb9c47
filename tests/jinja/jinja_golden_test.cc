// Published chat templates and single features, compared with Jinja2 as transformers uses it.
#include <gtest/gtest.h>

#include <ctime>
#include <map>

#include "core/json.h"
#include "core/read_file.h"
#include "jinja/template.h"
#include "support/goldens.h"

namespace lamina::jinja {
namespace {

namespace fs = std::filesystem;
using lamina::testing::golden_dir;

fs::path chat() { return golden_dir() / "chat"; }

void set(Variables& variables, std::string_view name, const JsonValue& value) {
  std::erase_if(variables, [&](const auto& known) { return known.first == name; });
  if (value) variables.emplace_back(name, from_json(value));
}

RenderOptions options_of(const JsonValue& results) {
  RenderOptions options;
  ::strptime(std::string(results.at("now").as_string()).c_str(), "%Y-%m-%dT%H:%M:%S", &options.now);
  return options;
}

// Renders a case and compares text, error and spans.
void expect_case(const std::string& source, const Variables& variables, const JsonValue& expected,
                 const RenderOptions& options, const std::string& name) {
  if (const JsonValue unspecified = expected.find("unspecified");
      unspecified && unspecified.as_bool())
    return;
  try {
    const Rendered rendered = Template::parse(source, name).render(variables, options);
    const JsonValue text = expected.find("rendered");
    if (!text) {
      ADD_FAILURE() << name << " must fail, but renders " << rendered.text;
      return;
    }
    EXPECT_EQ(rendered.text, text.as_string()) << name;
    const JsonValue spans = expected.find("spans");
    if (!spans) return;
    std::vector<GeneratedSpan> wanted;
    for (const JsonValue span : spans.elements())
      wanted.push_back({span.element(0).as_uint64(), span.element(1).as_uint64()});
    EXPECT_EQ(rendered.generated, wanted) << name;
  } catch (const UserError& e) {
    EXPECT_FALSE(expected.find("rendered")) << name << ": " << e.what();
    EXPECT_EQ(e.code(), ExitCode::usage);
    const JsonValue error = expected.find("error");
    if (error && error.is_string() && error.as_string() == "raise_exception") {
      EXPECT_EQ(e.text().what, expected.at("message").as_string()) << name;
    }
  }
}

class ChatTemplate : public ::testing::TestWithParam<fs::path> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChatTemplate);

TEST_P(ChatTemplate, RendersAsTransformersDoes) {
  const JsonDocument results = JsonDocument::read(GetParam());
  const JsonDocument contexts = JsonDocument::read(chat() / "contexts.json");
  const fs::path file = chat() / "templates" / GetParam().filename().replace_extension(".jinja");
  const std::string source = read_file(file, ExitCode::data);
  std::map<std::string, JsonValue, std::less<>> by_name;
  for (const JsonValue context : contexts.root().at("contexts").elements())
    by_name.emplace(context.at("name").as_string(), context);
  for (const JsonValue expected : results.root().at("results").elements()) {
    const std::string name(expected.at("context").as_string());
    Variables variables = {{"tools", TemplateValue::none()}, {"documents", TemplateValue::none()}};
    for (const char* token : {"bos_token", "eos_token"})
      if (const JsonValue text = results.root().find(token); text && !text.is_null())
        set(variables, token, text);
    const JsonValue context = by_name.at(name);
    for (const auto& [key, value] : context.members()) set(variables, key, value);
    if (const JsonValue more = context.find("kwargs"))
      for (const auto& [key, value] : more.members()) set(variables, key, value);
    expect_case(source, variables, expected, options_of(results.root()), name);
  }
}

std::vector<fs::path> result_files() {
  std::vector<fs::path> files;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(chat() / "results", ec))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

INSTANTIATE_TEST_SUITE_P(Published, ChatTemplate, ::testing::ValuesIn(result_files()),
                         [](const auto& file) {
                           return testing::test_name(file.param.stem().string());
                         });

TEST(JinjaUnits, SingleFeaturesRenderAsInJinja2) {
  const fs::path file = chat() / "jinja_units.json";
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument units = JsonDocument::read(file);
  for (const JsonValue unit : units.root().at("cases").elements()) {
    Variables variables;
    for (const char* part : {"default_context", "context"})
      if (const JsonValue context = (part[0] == 'd' ? units.root() : unit).find(part))
        for (const auto& [key, value] : context.members()) set(variables, key, value);
    const std::string source(unit.at("template").as_string());
    expect_case(source, variables, unit, options_of(units.root()), source);
  }
}

}  // namespace
}  // namespace lamina::jinja
