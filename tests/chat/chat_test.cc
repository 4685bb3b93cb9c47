// The source of a model's chat template, rendered conversations, and user text that is never read
// as control tokens.
#include "chat/conversation.h"
#include "chat/encode.h"
#include "chat/form.h"
#include "chat/small_tokenizer.h"
#include "support/expect_error.h"
#include "support/gguf_builder.h"
#include "support/temp_dir.h"

namespace lamina::chat {
namespace {

using lamina::testing::TempDir;
using lamina::testing::tokenizer_json;
using ::testing::ElementsAre;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";

Conversation one_message(std::string_view text) {
  Conversation conversation;
  conversation.add("user", text);
  return conversation;
}

std::string rendered(const TempDir& model, const std::optional<std::string>& file = {}) {
  return Form::load(model.path(), file).render(one_message("hi")).text;
}

TEST(ChatForm, Example) {
  TempDir model;
  model.write("chat_template.jinja", kTemplate);
  model.write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_EQ(rendered(model), "<s><|user|>hi<|assistant|>");
}

// As in transformers 5.
TEST(ChatForm, TheMapOfSpecialTokensReplacesAConfigWithoutAddedTokens) {
  TempDir model;
  model.write("chat_template.jinja", "{{ bos_token is defined }} {{ bos_token }} {{ eos_token }}");
  model.write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": ""})");
  model.write("special_tokens_map.json", R"({"eos_token": {"content": "</s>"}})");
  EXPECT_EQ(rendered(model), "True <s> </s>");
  model.write("special_tokens_map.json", R"({"bos_token": null})");
  EXPECT_EQ(rendered(model), "False  ");
  model.write("tokenizer_config.json", R"({"added_tokens_decoder": {}, "eos_token": "</s>"})");
  model.write("special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": "<s>"})");
  EXPECT_EQ(rendered(model), "False  </s>");
}

TEST(ChatForm, NamedTokensOfAModelAreVariables) {
  TempDir model;
  model.write("chat_template.jinja", "{{ image_token }} {{ audio_token }} {{ video_token }}");
  model.write("tokenizer_config.json",
              R"({"image_token": "A", "video_token": "V",
                  "model_specific_special_tokens": {"video_token": "old"},
                  "extra_special_tokens": {"image_token": "I", "audio_token": {"content": "S"}}})");
  EXPECT_EQ(rendered(model), "I S V");
  model.write("tokenizer_config.json",
              R"({"model_specific_special_tokens": {"image_token": "M"},
                  "extra_special_tokens": ["x"]})");
  EXPECT_EQ(rendered(model), "M  ");
}

TEST(ChatForm, BeginningsOfAConversationAreAsIfThatWereAll) {
  TempDir model;
  model.write("chat_template.jinja", kTemplate);
  const Form form = Form::load(model.path());
  Conversation conversation = one_message("hi");
  conversation.add_answer({"", "hello"});
  FormInputs inputs = form.inputs(conversation);
  EXPECT_EQ(inputs.render(2, false).text, "<|user|>hi<|assistant|>hello");
  EXPECT_EQ(inputs.render(1, true).text, rendered(model));
  EXPECT_EQ(inputs.render(1, false).text, "<|user|>hi");
  EXPECT_EQ(inputs.render(2, false).given, form.render(conversation).given);
}

TEST(ChatForm, TheOptionPrecedesTheFileAndTheConfig) {
  TempDir model;
  model.write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(rendered(model), "config");
  model.write("chat_template.jinja", "file");
  EXPECT_EQ(rendered(model), "file");
  EXPECT_EQ(rendered(model, model.write("mine.jinja", "mine")), "mine");
}

TEST(ChatForm, ToolsSelectTheNamedTemplateForTools) {
  TempDir model;
  model.write("tokenizer_config.json",
              R"({"chat_template": [{"name": "default", "template": "plain"},
                                    {"name": "tool_use", "template": "{{ tools | length }} tools"}]})");
  const Form form = Form::load(model.path());
  Conversation conversation = one_message("hi");
  EXPECT_EQ(form.render(conversation).text, "plain");
  conversation.set_tools(JsonDocument::parse(R"([{"type": "function"}])", "tools.json"));
  EXPECT_EQ(form.render(conversation).text, "1 tools");
}

// As in transformers.
TEST(ChatForm, NamedTemplatesMayBeAnObject) {
  TempDir model;
  model.write(
      "tokenizer_config.json",
      R"({"chat_template": {"default": "plain", "tool_use": "{{ tools | length }} tools"}})");
  const Form form = Form::load(model.path());
  Conversation conversation = one_message("hi");
  EXPECT_EQ(form.render(conversation).text, "plain");
  conversation.set_tools(JsonDocument::parse(R"([{"type": "function"}])", "tools.json"));
  EXPECT_EQ(form.render(conversation).text, "1 tools");
  model.write("tokenizer_config.json", R"({"chat_template": {"default": "{% if"}})");
  EXPECT_ERROR_SAYS(Form::load(model.path()), ExitCode::usage, "chat_template \"default\"");
}

// The layout in which transformers 5 saves several templates.
TEST(ChatForm, AdditionalTemplatesAreReadBesideTheOwnFile) {
  TempDir model;
  model.write("tokenizer_config.json", R"({"chat_template": "config"})");
  model.write("chat_template.jinja", "plain");
  model.write("additional_chat_templates/tool_use.jinja", "{{ tools | length }} tools");
  Conversation conversation = one_message("hi");
  EXPECT_EQ(Form::load(model.path()).render(conversation).text, "plain");
  conversation.set_tools(JsonDocument::parse(R"([{"type": "function"}])", "tools.json"));
  EXPECT_EQ(Form::load(model.path()).render(conversation).text, "1 tools");
  const std::string identity = Form::load(model.path()).identity();
  model.write("additional_chat_templates/tool_use.jinja", "{{ tools | length }}");
  EXPECT_NE(Form::load(model.path()).identity(), identity);
}

// As in transformers, which compiles the chosen template only.
TEST(ChatForm, ATemplateThatIsNotUsedMayBeWrong) {
  TempDir model;
  model.write("chat_template.jinja", "plain");
  model.write("additional_chat_templates/tool_use.jinja", "{{ ");
  Conversation conversation = one_message("hi");
  const Form form = Form::load(model.path());
  EXPECT_EQ(form.render(conversation).text, "plain");
  conversation.set_tools(JsonDocument::parse(R"([{"type": "function"}])", "tools.json"));
  EXPECT_ERROR_SAYS(form.render(conversation), ExitCode::usage, "tool_use.jinja");
  model.write("chat_template.jinja", "{% if");
  EXPECT_ERROR_SAYS(Form::load(model.path()), ExitCode::usage, "tool_use.jinja");
}

TEST(ChatForm, TheConfigMayHaveInfiniteNumbers) {
  TempDir model;
  model.write("tokenizer_config.json",
              R"({"model_max_length": Infinity, "chat_template": "config"})");
  EXPECT_EQ(rendered(model), "config");
  model.write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_ERROR_SAYS(Form::load(model.path()), ExitCode::checkpoint,
                    "must be a text, or a list or object of named texts, got 5");
}

TEST(ChatForm, ATemplateForToolsAloneServesConversationsWithTools) {
  TempDir model;
  model.write("additional_chat_templates/tool_use.jinja", "{{ tools | length }} tools");
  Conversation conversation = one_message("hi");
  EXPECT_ERROR_SAYS(Form::load(model.path()).render(conversation), ExitCode::data,
                    "has the chat templates 'tool_use' but none named 'default'");
  conversation.set_tools(JsonDocument::parse(R"([{"type": "function"}])", "tools.json"));
  EXPECT_EQ(Form::load(model.path()).render(conversation).text, "1 tools");
}

TEST(ChatForm, ATemplateOfAProcessorCountsWhereThereIsNoOther) {
  TempDir model;
  model.write("chat_template.json", R"({"chat_template": "processor"})");
  EXPECT_EQ(rendered(model), "processor");
  model.write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(rendered(model), "config");
}

TEST(ChatForm, ATemplateThatIsNotUtf8IsRefused) {
  TempDir model;
  const std::string file = model.write("chat_template.jinja", "caf\xe9");
  EXPECT_USER_ERROR(Form::load(model.path()), ExitCode::usage,
                    file +
                        ": is not UTF-8: byte 3 is 0xe9; a template must be UTF-8\n"
                        "  convert it, eg with `iconv -t utf-8`");
}

std::string rendered_messages(const char* source, const char* messages) {
  TempDir model;
  model.write("chat_template.jinja", source);
  return Form::load(model.path()).render(Conversation::parse(messages, "m.json")).text;
}

TEST(ChatForm, KeysThatAreNullAreLeftOut) {
  constexpr const char* kMessages =
      R"([{"role": "user", "content": "hi"},
          {"role": "assistant", "content": null, "tool_calls": null, "name": null}])";
  EXPECT_EQ(rendered_messages("{% for m in messages %}{{ m.content }}{% endfor %}", kMessages),
            "hi");
  EXPECT_EQ(rendered_messages("{% for m in messages %}{{ m.tool_calls is defined }} "
                              "{{ m | length }};{% endfor %}",
                              kMessages),
            "False 2;False 1;");
  // Nulls inside values are kept.
  EXPECT_EQ(rendered_messages("{{ messages[0].tool_calls }}",
                              R"([{"role": "assistant", "tool_calls": [{"id": null}]}])"),
            "[{'id': None}]");
}

TEST(ChatForm, ReasoningHasBothNamesWhicheverIsGiven) {
  constexpr const char* kBoth =
      "{% for m in messages %}{{ m.thinking }}/{{ m.reasoning_content }} {% endfor %}";
  for (const char* given :
       {R"("reasoning_content": "x")", R"("thinking": "x")", R"("reasoning": "x")",
        R"("reasoning_content": null, "thinking": "x")", R"("thinking": null, "reasoning": "x")"})
    EXPECT_EQ(
        rendered_messages(
            kBoth,
            (R"([{"role": "assistant", )" + std::string(given) + R"(, "content": "a"}])").c_str()),
        "x/x ")
        << given;
  EXPECT_EQ(rendered_messages(
                kBoth, R"([{"role": "assistant", "thinking": "t", "reasoning_content": "r"}])"),
            "t/r ");
  EXPECT_EQ(rendered_messages(kBoth, R"([{"role": "assistant", "content": "a"}])"), "/ ");
}

TEST(ChatForm, AGgufFileHoldsItsTemplatesAndTokens) {
  using lamina::testing::GgufBuilder;
  GgufBuilder file;
  file.set("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>"});
  file.set("tokenizer.ggml.bos_token_id", 1u);
  TempDir model;
  const std::string path = model.write("m.gguf", file.bytes());
  EXPECT_USER_ERROR(
      Form::load(path), ExitCode::data,
      path +
          ": has no chat template ('tokenizer.chat_template'), so it is not a chat model\n"
          "  give one with --chat-template FILE; `lamina decode` without --chat continues a text");
  EXPECT_EQ(rendered(model, model.write("mine.jinja", "{{ bos_token }}mine")), "<s>mine");
  file.set("tokenizer.chat_template", kTemplate);
  file.set("tokenizer.chat_template.tool_use", "{{ tools | length }} tools");
  model.write("m.gguf", file.bytes());
  EXPECT_EQ(rendered(model), "<s><|user|>hi<|assistant|>");
  Conversation conversation = one_message("hi");
  conversation.set_tools(JsonDocument::parse(R"([{"type": "function"}])", "tools.json"));
  EXPECT_EQ(Form::load(path).render(conversation).text, "1 tools");
}

TEST(ChatForm, TemplatesAndTokensOfAGgufFileArePartOfItsIdentity) {
  TempDir model;
  const auto identity = [&](std::uint32_t bos, const char* own_template) {
    lamina::testing::GgufBuilder file;
    file.set("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "<s>"});
    file.set("tokenizer.ggml.bos_token_id", bos);
    file.set("tokenizer.chat_template", own_template);
    return Form::load(model.write("m.gguf", file.bytes())).identity();
  };
  EXPECT_EQ(identity(1, "a"), identity(1, "a"));
  EXPECT_NE(identity(1, "a"), identity(0, "a"));
  EXPECT_NE(identity(1, "a"), identity(1, "b"));
}

TEST(ChatForm, AModelWithoutATemplateIsRefusedInWords) {
  TempDir model;
  EXPECT_USER_ERROR(Form::load(model.path()), ExitCode::data,
                    model.path() +
                        ": has no chat template (chat_template.jinja, or \"chat_template\" in "
                        "tokenizer_config.json or chat_template.json), so it is not a chat model\n"
                        "  give one with --chat-template FILE; `lamina decode` without --chat "
                        "continues a text");
  model.write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": ""}]})");
  EXPECT_ERROR_SAYS(Form::load(model.path()), ExitCode::data,
                    "has the chat templates 'rag' but none named 'default'");
}

TEST(ChatForm, ATemplateMayBeMissingButNotWrong) {
  TempDir model;
  EXPECT_FALSE(Form::find(model.path()));
  model.write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_FALSE(Form::find(model.path()));
  model.write("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_ERROR_SAYS(Form::find(model.path()), ExitCode::usage, "tokenizer_config.json");
  model.write("chat_template.jinja", "plain");
  EXPECT_TRUE(Form::find(model.path()));
}

// Values are made before the render, outside of its handling of errors.
TEST(ChatForm, TextsThatNoTemplateCanHaveAreErrorsOfTheirFile) {
  TempDir model;
  model.write("chat_template.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string longest(jinja::kMaxText, 'x');
  const Form form = Form::load(model.path());
  const auto message = [](const std::string& text) {
    return Conversation::parse(R"([{"role": "user", "content": ")" + text + R"("}])", "ask.json");
  };
  EXPECT_ERROR_SAYS(form.render(message("y" + longest)), ExitCode::data,
                    "ask.json:1: '[0].content' cannot be a value of a template: a string has more "
                    "than 16777216 characters");
  EXPECT_ERROR_SAYS(form.render(message(longest), {.continues_last = true}), ExitCode::data,
                    "ask.json:1: '[0].content' cannot be a value of a template: a string has more");
  model.write("tokenizer_config.json", R"({"bos_token": "y)" + longest + R"("})");
  EXPECT_ERROR_SAYS(Form::load(model.path()), ExitCode::checkpoint,
                    "'bos_token' cannot be a value of a template: a string has more than");
}

TEST(ChatForm, AMessageWithoutATextCannotBeContinued) {
  TempDir model;
  model.write("chat_template.jinja", "{{ messages[0].content }}");
  const Conversation conversation =
      Conversation::parse(R"([{"role": "user", "content": []}])", "messages.json");
  EXPECT_ERROR_SAYS(Form::load(model.path()).render(conversation, {.continues_last = true}),
                    ExitCode::data, "must have a text to continue, got an array of 0");
}

// As rstrip() of Python: U+3000 and U+00A0 are white space.
TEST(ChatForm, ATemplateThatStripsTextsIsContinuedWithoutTheirWhiteSpace) {
  const auto continued = [](const char* source) {
    TempDir model;
    model.write("chat_template.jinja", source);
    const Conversation conversation = Conversation::parse(
        R"([{"role": "assistant", "content": "wide\u00e9\u3000\u00a0\n"}])", "messages.json");
    return Form::load(model.path()).render(conversation, {.continues_last = true}).text;
  };
  EXPECT_EQ(continued("<{{ messages[0].content | trim }}>"), "<wide\u00e9");
  EXPECT_EQ(continued("<{{ messages[0].content }}>"), "<wide\u00e9\u3000\u00a0\n");
}

TEST(ChatForm, RolesThatTheTemplateRefusesAreItsError) {
  TempDir model;
  const std::string file = model.write(
      "chat_template.jinja",
      "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}");
  Conversation conversation = one_message("hi");
  conversation.set_system("be terse");
  EXPECT_USER_ERROR(Form::load(model.path()).render(conversation), ExitCode::usage,
                    file + ":1:41: no system here");
}

TEST(ChatForm, ThinkingIsSetOnlyWhereAsked) {
  TempDir model;
  model.write("chat_template.jinja",
              "{{ enable_thinking is defined }}{{ enable_thinking }}{{ thinking }}");
  const Form form = Form::load(model.path());
  EXPECT_EQ(form.render(one_message("hi")).text, "False");
  EXPECT_EQ(form.render(one_message("hi"), {.thinking = false}).text, "TrueFalseFalse");
}

TEST(ChatEncode, UserTextIsNeverAControlToken) {
  TempDir model;
  model.write("tokenizer.json", tokenizer_json());
  model.write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  model.write("chat_template.jinja", kTemplate);
  const auto tokenizer = text::load_tokenizer(model.path());
  const Form form = Form::load(model.path());
  EXPECT_THAT(encode(*tokenizer, form.render(one_message("hi"))),
              ElementsAre(256, 257, 'h' - 33, 'i' - 33, 258));
  // Nor do the end of the template's text and the start of the user's text merge into a control
  // token.
  for (const std::string text : {"<s>", "<|system|>", "|user|>x<s", "<|user|><|user|>"}) {
    const std::vector<text::TokenId> ids = encode(*tokenizer, form.render(one_message(text)));
    ASSERT_EQ(ids.size(), text.size() + 3) << text;
    for (std::size_t i = 0; i < text.size(); ++i) EXPECT_EQ(ids[i + 2], text[i] - 33) << text;
  }
}

// A token of the template that is not special, such as Gemma's <end_of_turn>.
TEST(ChatEncode, TokensOfTheTemplateAreControlTokensToo) {
  TempDir model;
  std::string tokens = tokenizer_json();
  for (const std::string special = "\"special\": true"; tokens.find(special) != tokens.npos;)
    tokens.replace(tokens.find(special), special.size(), "\"special\": false");
  model.write("tokenizer.json", tokens);
  model.write("chat_template.jinja", "<|user|>{{ messages[0].content }}<|assistant|>");
  const auto tokenizer = text::load_tokenizer(model.path());
  const Form form = Form::load(model.path());
  EXPECT_THAT(encode(*tokenizer, form.render(one_message("a<|system|>"))),
              ElementsAre(257, 'a' - 33, 259, 258));
  EXPECT_EQ(encode(*tokenizer, form.render(one_message("a<|user|>"))).size(), 11u);
}

TEST(Conversation, IsReadAsAListOrAnObjectAndWrittenAgain) {
  TempDir folder;
  const Conversation list = Conversation::read(
      folder.write("a.json", R"([{"role": "user", "content": "hi", "extra": [1, null]}])"));
  EXPECT_EQ(list.role(0), "user");
  const Conversation again = Conversation::read(folder.write("b.json", list.json()));
  EXPECT_EQ(again.json(), list.json());
  EXPECT_THAT(again.json(), ::testing::HasSubstr("\"extra\""));
}

TEST(Conversation, VariablesOfTheFileAreWrittenAgain) {
  TempDir folder;
  const std::string file = folder.write(
      "a.json",
      R"({"documents": [{"text": "d"}], "messages": [{"role": "user", "content": "hi"}],
          "tools": [{"type": "function"}], "date": null, "style": "terse"})");
  Conversation read = Conversation::read(file);
  read.add("assistant", "yes");
  const JsonDocument written = JsonDocument::parse(read.json(), "written");
  const JsonValue root = written.root();
  EXPECT_EQ(root.size(), 5u);
  EXPECT_EQ(root.at("messages").size(), 2u);
  EXPECT_EQ(root.at("tools").size(), 1u);
  EXPECT_EQ(root.at("documents").element(0).at("text").as_string(), "d");
  EXPECT_EQ(root.at("style").as_string(), "terse");
  EXPECT_TRUE(root.at("date").is_null());
}

TEST(Conversation, InfiniteNumbersAreWrittenAgain) {
  const Conversation read = Conversation::parse(
      R"([{"role": "user", "content": "a", "score": NaN, "limits": [-Infinity, Infinity]}])", "c");
  EXPECT_THAT(read.json(), ::testing::HasSubstr("\"score\": NaN"));
  EXPECT_THAT(read.json(), ::testing::HasSubstr("-Infinity"));
  EXPECT_EQ(Conversation::parse(read.json(), "again").json(), read.json());
}

TEST(Conversation, TakesTheSystemMessageAndToolsThatItLacks) {
  Conversation session;
  session.set_system("be terse");
  session.set_tools(JsonDocument::parse(R"([{"type": "function"}])", "tools.json"));
  Conversation bare = one_message("hi");
  bare.add_missing(session);
  ASSERT_EQ(bare.size(), 2u);
  EXPECT_TRUE(bare.has_system());
  EXPECT_TRUE(bare.tools());
  Conversation complete = Conversation::parse(
      R"({"messages": [{"role": "system", "content": "own"}], "tools": []})", "m.json");
  complete.add_missing(session);
  ASSERT_EQ(complete.size(), 1u);
  EXPECT_EQ(complete.messages()[0].root().at("content").as_string(), "own");
  EXPECT_EQ(complete.tools()->root().size(), 0u);
}

TEST(Conversation, InvalidMessagesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"(5)", "must be a list of messages"},
      {R"({"a": 1})", "messages"},
      {R"(["hi"])", "must be a message, eg {\"role\": \"user\", \"content\": \"hello\"}"},
      {R"([{"content": "hi"}])", "role"},
      {R"([{"role": 5}])", "role"},
      {R"({"messages": [], "tools": 1})", "must be a list of tools"},
      {R"([)", "m.json:1"},
  };
  for (const auto& [json, says] : cases)
    EXPECT_ERROR_SAYS(Conversation::parse(json, "m.json"), ExitCode::data, says);
}

TEST(Conversation, ReasoningOfAnAnswerIsKeptApart) {
  Conversation conversation;
  conversation.add_answer({"hm", "yes"});
  conversation.add_answer({"", "no thought"});
  EXPECT_EQ(conversation.messages()[0].root().at("reasoning_content").as_string(), "hm");
  EXPECT_EQ(conversation.messages()[0].root().at("content").as_string(), "yes");
  EXPECT_FALSE(conversation.messages()[1].root().find("reasoning_content"));
}

}  // namespace
}  // namespace lamina::chat
