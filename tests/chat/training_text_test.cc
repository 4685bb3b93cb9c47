// Learned text of a conversation: the answers with their end tokens, and nothing of the prompts.
#include "chat/training_text.h"

#include <gtest/gtest.h>

#include "chat/small_tokenizer.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::chat {
namespace {

// "<s>" ends an answer.
constexpr const char* kPlain =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}"
    "{% if m.role == 'assistant' %}<s>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

// Drops the thinking of all answers but the last, as many templates do.
constexpr const char* kThinking =
    "{% for m in messages %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' and loop.last %}({{ m.reasoning_content }}){% endif %}"
    "{{ m.content }}{% if m.role == 'assistant' %}<s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

// Without end tokens: answers end with their last character.
constexpr const char* kBare =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
constexpr const char* kBareMarked =
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}";

// Marks the generated text itself.
constexpr const char* kMarked =
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}<s>{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

// Likewise, and drops the thinking of all answers but the last.
constexpr const char* kMarkedThinking =
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}"
    "{% if loop.last %}{% generation %}({{ m.reasoning_content }}){% endgeneration %}{% endif %}"
    "{% generation %}{{ m.content }}<s>{% endgeneration %}{% else %}{{ m.content }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

// Likewise, in a loop over numbers.
constexpr const char* kMarkedByIndex =
    "{% for i in range(messages | length) %}{% set m = messages[i] %}<|{{ m.role }}|>"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<s>{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

// Ends every text with the next prompt.
constexpr const char* kAlwaysPrompts =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<s>{% endfor %}<|assistant|>";
// Messages and prompts begin with the same control token.
constexpr const char* kAlwaysPromptsLikeMessages =
    "{% for m in messages %}<|system|>{{ m.role }}:{{ m.content }}<s>{% endfor %}"
    "<|system|>assistant:";
// Without end tokens.
constexpr const char* kAlwaysPromptsBare =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>";

constexpr const char* kTwoTurns =
    R"([{"role": "user", "content": "a"},
        {"role": "assistant", "reasoning_content": "x", "content": "bc"},
        {"role": "user", "content": "d"},
        {"role": "assistant", "reasoning_content": "y", "content": "e"}])";

class Model {
 public:
  explicit Model(const char* chat_template, std::string_view normalizer = "null") {
    std::string json = testing::tokenizer_json();
    const std::string_view no_normalizer = R"("normalizer": null)", vocab = R"("vocab": {)";
    json.replace(json.find(no_normalizer), no_normalizer.size(),
                 R"("normalizer": )" + std::string(normalizer));
    // The two bytes of "\u00e9".
    json.insert(json.find(vocab) + vocab.size(), R"("\u00c3": 96, "\u00a9": 97, )");
    folder_.write("tokenizer.json", json);
    folder_.write("chat_template.jinja", chat_template);
    tokenizer_ = text::load_tokenizer(folder_.path());
  }

  // The texts, with the learned parts in brackets.
  std::vector<std::string> learned(const char* messages, Learned what) const {
    std::vector<std::string> out;
    for (const MaskedTokens& tokens :
         training_tokens(*tokenizer_, Form::load(folder_.path()),
                         Conversation::parse(messages, "messages"), what)) {
      out.push_back(shown(tokens));
    }
    return out;
  }

  std::string shown(const MaskedTokens& tokens) const {
    EXPECT_EQ(tokens.ids.size(), tokens.generated.size());
    std::string text;
    bool open = false;
    const auto set_open = [&](bool wanted) {
      if (wanted != open) text += wanted ? "[" : "]";
      open = wanted;
    };
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
      set_open(tokens.generated[i]);
      text += tokenizer_->token_bytes(tokens.ids[i]);
    }
    set_open(false);
    return text;
  }

  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  testing::TempDir folder_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
};

using Texts = std::vector<std::string>;

TEST(TrainingText, Example) {
  const Model model(kPlain);
  EXPECT_EQ(model.learned(kTwoTurns, Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[bc<s>]\n<|user|>d<|assistant|>[e<s>]\n"}));
  EXPECT_EQ(model.learned(kTwoTurns, Learned::last),
            (Texts{"<|user|>a<|assistant|>bc<s>\n<|user|>d<|assistant|>[e<s>]\n"}));
  EXPECT_EQ(model.learned(kTwoTurns, Learned::all),
            (Texts{"[<|user|>a<|assistant|>bc<s>\n<|user|>d<|assistant|>e<s>\n]"}));
}

TEST(TrainingText, AnAnswerThatLaterTurnsChangeIsLearnedOnItsOwn) {
  const Model model(kThinking);
  EXPECT_EQ(model.learned(kTwoTurns, Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[(x)bc<s>]",
                   "<|user|>a<|assistant|>bc<s><|user|>d<|assistant|>[(y)e<s>]"}));
  EXPECT_EQ(model.learned(kTwoTurns, Learned::last),
            (Texts{"<|user|>a<|assistant|>bc<s><|user|>d<|assistant|>[(y)e<s>]"}));
}

TEST(TrainingText, MarksOfTheTemplateSelectTheLearnedText) {
  const Model model(kMarked);
  EXPECT_EQ(model.learned(kTwoTurns, Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[bc<s>]<|user|>d<|assistant|>[e<s>]"}));
  EXPECT_EQ(model.learned(kTwoTurns, Learned::last),
            (Texts{"<|user|>a<|assistant|>bc<s><|user|>d<|assistant|>[e<s>]"}));
}

TEST(TrainingText, AnswersWithWeightZeroAreReadAndNotLearned) {
  for (const char* no : {R"("weight": 0)", R"("train": false)", R"("weight": 1, "train": false)"}) {
    const auto two_turns = [no](bool first, bool second) {
      return R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc")" +
             (first ? std::string() : std::string(", ") + no) +
             R"(}, {"role": "user", "content": "d"}, {"role": "assistant", "content": "e")" +
             (second ? std::string() : std::string(", ") + no) + "}]";
    };
    const std::string not_first = two_turns(false, true), not_last = two_turns(true, false),
                      none = two_turns(false, false);
    const Model plain(kPlain), marked(kMarked);
    EXPECT_EQ(plain.learned(not_first.c_str(), Learned::assistant),
              (Texts{"<|user|>a<|assistant|>bc<s>\n<|user|>d<|assistant|>[e<s>]\n"}));
    EXPECT_EQ(plain.learned(not_last.c_str(), Learned::assistant),
              (Texts{"<|user|>a<|assistant|>[bc<s>]\n"}));
    EXPECT_EQ(plain.learned(not_first.c_str(), Learned::all),
              (Texts{"[<|user|>a]<|assistant|>bc<s>\n[<|user|>d<|assistant|>e<s>\n]"}));
    EXPECT_TRUE(plain.learned(not_last.c_str(), Learned::last).empty());
    EXPECT_TRUE(plain.learned(none.c_str(), Learned::assistant).empty());
    EXPECT_EQ(marked.learned(not_first.c_str(), Learned::assistant),
              (Texts{"<|user|>a<|assistant|>bc<s><|user|>d<|assistant|>[e<s>]"}));
    EXPECT_EQ(marked.learned(not_last.c_str(), Learned::assistant),
              (Texts{"<|user|>a<|assistant|>[bc<s>]"}));
    EXPECT_EQ(Model(kThinking).learned(not_first.c_str(), Learned::assistant),
              (Texts{"<|user|>a<|assistant|>bc<s><|user|>d<|assistant|>[()e<s>]"}));
  }
}

TEST(TrainingText, MarksOfAMessageThatIsNotLearnedAreIgnored) {
  const Model model(kMarkedThinking);
  const auto turns = [](const std::string& first, const std::string& second) {
    return R"([{"role": "assistant", "content": "f")" + first +
           R"(}, {"role": "user", "content": "a"},
               {"role": "assistant", "reasoning_content": "x", "content": "bc")" +
           second + R"(}, {"role": "user", "content": "d"},
               {"role": "assistant", "reasoning_content": "y", "content": "e"}])";
  };
  const std::string no = R"(, "weight": 0)";
  EXPECT_EQ(model.learned(turns("", "").c_str(), Learned::assistant),
            (Texts{"<|assistant|>[f<s>]<|user|>a<|assistant|>[bc<s>]<|user|>d"
                   "<|assistant|>[(y)e<s>]"}));
  EXPECT_EQ(model.learned(turns("", no).c_str(), Learned::assistant),
            (Texts{"<|assistant|>[f<s>]<|user|>a<|assistant|>bc<s><|user|>d"
                   "<|assistant|>[(y)e<s>]"}));
  EXPECT_EQ(model.learned(turns(no, "").c_str(), Learned::assistant),
            (Texts{"<|assistant|>f<s><|user|>a<|assistant|>[bc<s>]<|user|>d"
                   "<|assistant|>[(y)e<s>]"}));
  EXPECT_EQ(model.learned(turns(no, no).c_str(), Learned::assistant),
            (Texts{"<|assistant|>f<s><|user|>a<|assistant|>bc<s><|user|>d"
                   "<|assistant|>[(y)e<s>]"}));
}

TEST(TrainingText, TheLastAnswerIsLearnedAloneIfThePromptDiffersBeforeIt) {
  const Model model(kMarkedThinking);
  EXPECT_EQ(model.learned(R"([{"role": "user", "content": "a"},
                              {"role": "assistant", "reasoning_content": "x", "content": "bc"},
                              {"role": "assistant", "reasoning_content": "y", "content": "e"}])",
                          Learned::last),
            (Texts{"<|user|>a<|assistant|>bc<s><|assistant|>[(y)e<s>]"}));
}

TEST(TrainingText, MarksOutsideOfALoopOverMessagesCannotBeIgnored) {
  const Model model(kMarkedByIndex);
  EXPECT_EQ(model.learned(kTwoTurns, Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[bc<s>]<|user|>d<|assistant|>[e<s>]"}));
  EXPECT_EQ(model.learned(kTwoTurns, Learned::last),
            (Texts{"<|user|>a<|assistant|>bc<s><|user|>d<|assistant|>[e<s>]"}));
  EXPECT_ERROR_SAYS(
      model.learned(R"([{"role": "user", "content": "a"},
                                      {"role": "assistant", "content": "bc", "weight": 0},
                                      {"role": "user", "content": "d"},
                                      {"role": "assistant", "content": "e"}])",
                    Learned::assistant),
      ExitCode::data,
      "message 2 is excluded from the loss, but the template has {% generation %} marks "
      "outside of a loop over the messages");
}

TEST(TrainingText, AllTokensOfACharacterAreLearnedOrNone) {
  const auto two_turns = [](const std::string& weight) {
    return R"([{"role": "user", "content": "\u00e9"},
               {"role": "assistant", "content": "b\u00e9")" +
           weight + R"(}, {"role": "user", "content": "d\u00e9"},
               {"role": "assistant", "content": "\u00e9"}])";
  };
  for (const char* form : {kBare, kBareMarked}) {
    const Model model(form);
    EXPECT_EQ(model.learned(two_turns("").c_str(), Learned::assistant),
              (Texts{"<|user|>\u00e9<|assistant|>[b\u00e9]<|user|>d\u00e9<|assistant|>[\u00e9]"}));
    EXPECT_EQ(model.learned(two_turns("").c_str(), Learned::last),
              (Texts{"<|user|>\u00e9<|assistant|>b\u00e9<|user|>d\u00e9<|assistant|>[\u00e9]"}));
    EXPECT_EQ(model.learned(two_turns(R"(, "weight": 0)").c_str(), Learned::all),
              (Texts{"[<|user|>\u00e9]<|assistant|>b\u00e9[<|user|>d\u00e9<|assistant|>\u00e9]"}));
  }
}

TEST(TrainingText, CharactersWithoutATokenChangeNoOtherMessage) {
  const Model model(kBareMarked, R"({"type": "Strip", "strip_left": true, "strip_right": true})");
  EXPECT_EQ(model.learned(R"([{"role": "user", "content": "a"},
                              {"role": "assistant", "content": " bc "},
                              {"role": "user", "content": "d"},
                              {"role": "assistant", "content": "e"}])",
                          Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[bc]<|user|>d<|assistant|>[e]"}));
}

TEST(TrainingText, OtherWeightsAreRefused) {
  const Model model(kPlain);
  const std::pair<const char*, const char*> cases[] = {
      {R"("weight": 0.5)", "must be 0 (not in the loss) or 1, got 0.5"},
      {R"("weight": "0")", "must be 0 (not in the loss) or 1, got "},
      {R"("train": 0)", "must be true or false, got "},
  };
  for (const auto& [key, says] : cases)
    for (const char* role : {"user", "assistant"})
      EXPECT_ERROR_SAYS(
          model.learned((std::string(R"([{"role": "user", "content": "a"}, {"role": ")") + role +
                         R"(", "content": "b", )" + key + "}]")
                            .c_str(),
                        Learned::assistant),
          ExitCode::data, says);
  EXPECT_EQ(model.learned(R"([{"role": "user", "content": "a", "weight": null},
                              {"role": "assistant", "content": "b", "weight": 1, "train": true}])",
                          Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[b<s>]\n"}));
}

TEST(TrainingText, TextAfterTheLastAnswerIsDropped) {
  const Model model(kPlain);
  EXPECT_EQ(model.learned(R"([{"role": "user", "content": "a"},
                              {"role": "assistant", "content": "b"},
                              {"role": "user", "content": "never answered"}])",
                          Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[b<s>]\n"}));
  EXPECT_TRUE(model.learned(R"([{"role": "user", "content": "a"}])", Learned::assistant).empty());
}

TEST(TrainingText, AnAnswerWithoutAQuestionIsRead) {
  const Model model(kPlain);
  EXPECT_EQ(model.learned(R"([{"role": "assistant", "content": "a"},
                              {"role": "user", "content": "b"},
                              {"role": "assistant", "content": "c"}])",
                          Learned::assistant),
            (Texts{"<|assistant|>a<s>\n<|user|>b<|assistant|>[c<s>]\n"}));
}

TEST(TrainingText, ToolsAreCalledByAnswersAndAnswerThemselves) {
  const Model model(
      "{{ tools | length }}{% for m in messages %}<|{{ m.role }}|>"
      "{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{% else %}{{ m.content }}{% endif %}"
      "<s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}");
  const char* conversation =
      R"({"tools": [{"type": "function"}], "messages": [
          {"role": "user", "content": "a"},
          {"role": "assistant", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]},
          {"role": "tool", "content": "7"}, {"role": "assistant", "content": "b"}]})";
  EXPECT_EQ(model.learned(conversation, Learned::assistant),
            (Texts{"1<|user|>a<s><|assistant|>[look<s>]<|tool|>7<s><|assistant|>[b<s>]"}));
}

TEST(TrainingText, TheNextPromptIsNotLearned) {
  EXPECT_EQ(Model(kAlwaysPrompts).learned(kTwoTurns, Learned::assistant),
            (Texts{"<|user|>a<s><|assistant|>[bc<s>]<|user|>d<s><|assistant|>[e<s>]"}));
  EXPECT_EQ(Model(kAlwaysPrompts).learned(kTwoTurns, Learned::last),
            (Texts{"<|user|>a<s><|assistant|>bc<s><|user|>d<s><|assistant|>[e<s>]"}));
  EXPECT_EQ(Model(kAlwaysPromptsLikeMessages).learned(kTwoTurns, Learned::assistant),
            (Texts{"<|system|>user:a<s><|system|>assistant:[bc<s>]"
                   "<|system|>user:d<s><|system|>assistant:[e<s>]"}));
  // The question ends like the answer.
  EXPECT_EQ(Model(kAlwaysPromptsBare)
                .learned(R"([{"role": "user", "content": "a"},
                             {"role": "assistant", "content": "ba"}])",
                         Learned::assistant),
            (Texts{"<|user|>a<|assistant|>[ba]"}));
  const Model model(kAlwaysPrompts);
  testing::TempDir folder;
  folder.write("chat_template.jinja", kAlwaysPrompts);
  Conversation prompt;
  prompt.add("user", "a");
  Conversation whole = prompt;
  whole.add("assistant", "b");
  EXPECT_EQ(
      model.shown(completion_tokens(model.tokenizer(), Form::load(folder.path()), prompt, whole)),
      "<|user|>a<s><|assistant|>[b<s>]");
}

TEST(TrainingText, ATemplateThatRewritesThePromptIsRefused) {
  const Model model("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_ERROR_SAYS(model.learned(kTwoTurns, Learned::assistant), ExitCode::data,
                    "the answer in message 4 does not follow its prompt");
}

TEST(TrainingText, DatesAreAlwaysTheSame) {
  const Model model(
      "{{ strftime_now('%d %b %Y') }}{% for m in messages %}{{ m.content }}"
      "{% endfor %}");
  EXPECT_EQ(model.learned(R"([{"role": "user", "content": "a"},
                              {"role": "assistant", "content": "b"}])",
                          Learned::all),
            Texts{"[26 Jul 2024ab]"});
}

TEST(TrainingText, CompletionsAreLearnedAndPromptsAreNot) {
  const Model model(kPlain);
  EXPECT_EQ(model.shown(completion_tokens(model.tokenizer(), "ab", "abcd", {})), "ab[cd]");
  EXPECT_EQ(model.shown(completion_tokens(model.tokenizer(), "", "ab", {})), "[ab]");
  EXPECT_EQ(model.shown(completion_tokens(model.tokenizer(), "ab", "ab", {})), "ab");
}

}  // namespace
}  // namespace lamina::chat
