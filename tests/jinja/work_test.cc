// Steps per conversation, as limits count them; 100 messages take 5 ms on an idle core.
#include <gtest/gtest.h>

#include "jinja/render.h"

namespace lamina::jinja {
namespace {

constexpr const char* kTemplate = R"({%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(last=messages | length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages | length - 1) - loop.index0 %}
    {%- if message.role == 'user' and message.content is string %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}{% set content = message.content %}{% endif %}
    {%- if message.role == 'assistant' and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' + content | trim + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{% endif %})";

std::string conversation(int messages) {
  std::string out = R"({"add_generation_prompt": true, "messages": [)";
  for (int i = 0; i < messages; ++i) {
    out += i ? ", " : "";
    out += R"({"role": ")" + std::string(i % 2 ? "assistant" : "user") + R"(", "content": ")";
    for (int k = 0; k < 40; ++k) out += "some words ";
    out += "\"}";
  }
  return out + "]}";
}

// The smallest limit under which the conversation renders.
std::uint64_t steps_of(int messages) {
  const JsonDocument document = JsonDocument::parse(conversation(messages), "context.json");
  Variables variables;
  for (const auto& [name, value] : document.root().members())
    variables.emplace_back(name, from_json(value));
  const Template parsed = Template::parse(kTemplate, "t.jinja");
  std::uint64_t too_few = 0, enough = Limits{}.max_steps;
  while (enough - too_few > 1) {
    const std::uint64_t middle = too_few + (enough - too_few) / 2;
    try {
      (void)parsed.render(variables, {.limits = {.max_steps = middle}});
      enough = middle;
    } catch (const UserError&) {
      too_few = middle;
    }
  }
  return enough;
}

TEST(JinjaWork, IsInProportionToTheMessages) {
  const std::uint64_t fifty = steps_of(50), hundred = steps_of(100);
  RecordProperty("steps", std::to_string(hundred));
  EXPECT_LE(hundred, 2 * fifty);
  EXPECT_LE(hundred, 20'000u);
}

}  // namespace
}  // namespace lamina::jinja
