// Templates: an accepted template renders a conversation within small limits or gives an error.
#include "fuzz/fuzz.h"
#include "jinja/template.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lamina;
  static const JsonDocument context = JsonDocument::parse(
      R"({"messages": [{"role": "system", "content": "be terse"},
          {"role": "user", "content": "h\u00e9llo <s> 'x' \"y\"\n"},
          {"role": "assistant", "content": "<think>a</think> b", "tool_calls":
           [{"function": {"name": "f", "arguments": {"a": 1, "b": [1.5, null, true]}}}]}],
          "add_generation_prompt": true})",
      "context.json");
  fuzz::refuse_or_accept([&] {
    jinja::Variables variables = {{"tools", jinja::TemplateValue::none()},
                                  {"bos_token", jinja::trusted("<s>")}};
    for (const auto& [name, value] : context.root().members())
      variables.emplace_back(name, jinja::from_json(value));
    const auto parsed = jinja::Template::parse(fuzz::text_of(data, size), "t.jinja");
    const jinja::RenderOptions options{
        .limits = {.max_steps = 20'000, .max_output = 20'000, .max_memory = 8 << 20}};
    const jinja::Rendered rendered = parsed.render(variables, options);
    std::size_t end = 0;
    for (const jinja::RenderedSpan& span : rendered.given) {
      LAMINA_ASSERT(span.begin >= end && span.end > span.begin);
      end = span.end;
    }
    LAMINA_ASSERT(end <= rendered.text.size());
  });
  return 0;
}
