// Learned tokens of prompts with completions, compared with TRL; and answers marked by published
// templates, compared with answers found without marks.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <map>

#include "chat/published_form.h"
#include "chat/training_text.h"

namespace lamina::chat {
namespace {

using lamina::testing::golden_dir;
using lamina::testing::json_of;
using lamina::testing::published_form;

const text::Tokenizer& tokenizer_of(const std::string& name) {
  static std::map<std::string, std::unique_ptr<text::Tokenizer>> known;
  auto& tokenizer = known[name];
  if (!tokenizer) tokenizer = text::load_tokenizer(golden_dir() / "tokenizers" / name);
  return *tokenizer;
}

std::string numbers(const JsonValue& list) {
  std::vector<std::int64_t> out;
  for (const JsonValue number : list.elements()) out.push_back(number.as_int64());
  return fmt::format("{}", fmt::join(out, " "));
}

TEST(CompletionTokens, EqualTheReference) {
  const auto file = golden_dir() / "text" / "packing" / "sft_masks.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const JsonDocument cases = JsonDocument::read(file);
  int num_texts = 0, num_chats = 0;
  for (const JsonValue c : cases.root().at("cases").elements()) {
    const std::string_view kind = c.at("kind").as_string();
    MaskedTokens tokens;
    if (kind == "prompt_completion") {
      const std::string prompt(c.at("prompt").as_string());
      tokens = completion_tokens(tokenizer_of(std::string(c.at("tokenizer").as_string())), prompt,
                                 prompt + std::string(c.at("completion").as_string()), {});
      ++num_texts;
    } else if (kind == "chat_prompt_completion") {
      const Conversation whole = Conversation::parse(json_of(c.at("messages")), "messages");
      Conversation prompt = whole;
      prompt.pop_back();
      tokens = completion_tokens(tokenizer_of(std::string(c.at("tokenizer").as_string())),
                                 published_form(c.at("template").as_string()), prompt, whole);
      ++num_chats;
    } else {
      continue;
    }
    EXPECT_EQ(fmt::format("{}", fmt::join(tokens.ids, " ")), numbers(c.at("input_ids")));
    EXPECT_EQ(fmt::format("{:d}", fmt::join(tokens.generated, " ")),
              numbers(c.at("completion_mask")));
  }
  EXPECT_GE(num_texts, 40);
  EXPECT_GE(num_chats, 27);
}

// The learned tokens of a conversation as text, without line breaks: the marks of the published
// template include some at both ends that no model writes.
std::string learned_text(std::string_view form, const Conversation& conversation) {
  const text::Tokenizer& tokenizer = tokenizer_of("qwen2");
  std::string out;
  for (const MaskedTokens& tokens :
       training_tokens(tokenizer, published_form(form), conversation, Learned::assistant))
    for (std::size_t i = 0; i < tokens.ids.size(); ++i)
      if (tokens.generated[i]) out += tokenizer.token_bytes(tokens.ids[i]);
  std::erase(out, '\n');
  return out;
}

TEST(TrainingTokens, EqualTheMarksOfAPublishedTemplate) {
  const auto folder = golden_dir() / "chat";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const JsonDocument contexts = JsonDocument::read(folder / "contexts.json");
  int compared = 0;
  for (const JsonValue context : contexts.root().at("contexts").elements()) {
    const JsonValue messages = context.at("messages");
    if (context.find("tools") || context.find("kwargs")) continue;
    SCOPED_TRACE(context.at("name").as_string());
    std::string marked;
    Conversation conversation;
    try {
      conversation = Conversation::parse(json_of(messages), "messages");
      marked = learned_text("qwen2_5_training", conversation);
    } catch (const UserError&) {
      continue;  // not a conversation, or refused by the template
    }
    EXPECT_EQ(learned_text("qwen2_5", conversation), marked);
    compared += !marked.empty();
  }
  EXPECT_GE(compared, 10);
}

}  // namespace
}  // namespace lamina::chat
