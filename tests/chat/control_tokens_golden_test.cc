// Conversations with control tokens in the users' text: the ids equal transformers' ids with
// sanitizing.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "chat/encode.h"
#include "chat/form.h"
#include "core/json_writer.h"
#include "support/goldens.h"

namespace lamina::chat {
namespace {

namespace fs = std::filesystem;
using lamina::testing::golden_dir;

TEST(ControlTokens, AreOrdinaryTextInMessages) {
  const fs::path file = golden_dir() / "chat" / "control_tokens.json";
  if (!fs::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument cases = JsonDocument::read(file);
  int compared = 0;
  for (const JsonValue c : cases.root().at("cases").elements()) {
    const fs::path folder =
        golden_dir() / "tokenizers" / std::string(c.at("tokenizer").as_string());
    std::unique_ptr<text::Tokenizer> tokenizer;
    try {
      tokenizer = text::load_tokenizer(folder);
    } catch (const UserError&) {
      continue;  // a kind that the tests of tokenizers cover
    }
    const std::string name(c.at("template").as_string());
    const Form form =
        Form::load(folder, (golden_dir() / "chat" / "templates" / (name + ".jinja")).string());
    JsonWriter json;
    json.value(c.at("messages"));
    const jinja::Rendered rendered =
        form.render(Conversation::parse(json.text(), "messages"),
                    {.add_generation_prompt = c.at("add_generation_prompt").as_bool()});
    std::vector<text::TokenId> wanted;
    for (const JsonValue id : c.at("input_ids_plain_text").elements())
      wanted.push_back(static_cast<text::TokenId>(id.as_int64()));
    EXPECT_EQ(fmt::format("{}", fmt::join(encode(*tokenizer, rendered), " ")),
              fmt::format("{}", fmt::join(wanted, " ")))
        << folder << " " << rendered.text;
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace lamina::chat
