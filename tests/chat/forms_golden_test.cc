// Published templates, compared with transformers: conversations that end in an open message, and
// the tokens that the model writes.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "chat/answer_mask.h"
#include "chat/form.h"
#include "chat/published_form.h"

namespace lamina::chat {
namespace {

namespace fs = std::filesystem;
using lamina::testing::golden_dir;
using lamina::testing::json_of;
using lamina::testing::published_form;

std::tm fixed_time() {  // the time used by the goldens
  std::tm out = {};
  EXPECT_NE(::strptime("2025-03-04T15:09:26", "%Y-%m-%dT%H:%M:%S", &out), nullptr);
  return out;
}

TEST(ContinuedForms, EndInTheLastMessage) {
  const fs::path file = golden_dir() / "chat" / "continue.json";
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument cases = JsonDocument::read(file);
  int compared = 0;
  for (const JsonValue c : cases.root().at("cases").elements()) {
    const Form form = published_form(c.at("template").as_string());
    const jinja::Rendered rendered =
        form.render(Conversation::parse(json_of(c.at("messages")), "messages"),
                    {.continues_last = true, .now = fixed_time()});
    EXPECT_EQ(rendered.text, c.at("rendered").as_string())
        << c.at("template").as_string() << " " << c.at("case").as_string();
    for (const jinja::RenderedSpan& span : rendered.given)
      EXPECT_LE(span.end, rendered.text.size());
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

// A context of the goldens as a conversation file.
std::string conversation_of(const JsonValue& context) {
  JsonWriter json;
  json.begin_object();
  for (const auto& [key, value] : context.members())
    if (key == "messages" || key == "tools" || key == "documents") json.key(key).value(value);
  if (const JsonValue more = context.find("kwargs"); more && !more.is_null())
    for (const auto& [key, value] : more.members()) json.key(key).value(value);
  return json.end_object().text();
}

TEST(AnswerMask, CoversTheTextMarkedAsGenerated) {
  const fs::path file = golden_dir() / "chat" / "masks.json";
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument cases = JsonDocument::read(file),
                     contexts = JsonDocument::read(golden_dir() / "chat" / "contexts.json");
  std::map<std::string_view, JsonValue> by_name;
  for (const JsonValue context : contexts.root().at("contexts").elements())
    by_name.emplace(context.at("name").as_string(), context);
  std::map<std::string, std::unique_ptr<text::Tokenizer>> tokenizers;
  int compared = 0;
  for (const JsonValue c : cases.root().at("cases").elements()) {
    const JsonValue context = by_name.at(c.at("context").as_string());
    const jinja::Rendered rendered =
        published_form(c.at("template").as_string())
            .render(Conversation::parse(conversation_of(context), "context"),
                    {.add_generation_prompt = context.at("add_generation_prompt").as_bool(),
                     .now = fixed_time()});
    const std::string name =
        fmt::format("{} of {}", c.at("template").as_string(), c.at("context").as_string());
    EXPECT_EQ(rendered.text, c.at("rendered").as_string()) << name;
    const std::string folder(c.at("tokenizer").as_string());
    std::unique_ptr<text::Tokenizer>& tokenizer = tokenizers[folder];
    if (!tokenizer) tokenizer = text::load_tokenizer(golden_dir() / "tokenizers" / folder);
    const MaskedTokens tokens = encode_with_mask(*tokenizer, rendered);
    std::vector<std::int64_t> ids, mask;
    for (const JsonValue id : c.at("input_ids").elements()) ids.push_back(id.as_int64());
    for (const JsonValue one : c.at("assistant_masks").elements()) mask.push_back(one.as_int64());
    EXPECT_EQ(fmt::format("{}", fmt::join(tokens.ids, " ")), fmt::format("{}", fmt::join(ids, " ")))
        << name;
    EXPECT_EQ(fmt::format("{:d}", fmt::join(tokens.generated, " ")),
              fmt::format("{}", fmt::join(mask, " ")))
        << name;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace lamina::chat
