// Rows of conversations in every published form: exactly the expected tokens are in the loss.
#include "data/chat_record.h"

#include <gtest/gtest.h>

#include "chat/form.h"
#include "data/dataset.h"
#include "data/load.h"
#include "support/expect_error.h"
#include "support/temp_dir.h"

namespace lamina::data {
namespace {

using testing::TempDir;

constexpr const char* kChatTemplate =
    "{% if tools %}T{{ tools[0].name }}{% endif %}{% for m in messages %}"
    "{% if m.role == 'martian' %}{{ raise_exception('who is that?') }}{% endif %}"
    "{{ m.role[0] }}:{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}"
    "{% else %}{{ m.content }}{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";

class Chats {
 public:
  explicit Chats(const std::string& lines, const char* chat_template = kChatTemplate) {
    section_.form = "chat";
    section_.chat_template = dir_.write("chat.jinja", chat_template);
    section_.train = {dir_.write("chats.jsonl", lines)};
    section_.sequence_length = 40;
    section_.shuffle = false;
  }

  config::DataSection& section() { return section_; }
  std::string file() const { return section_.train[0]; }

  RunData load() const { return load_data(section_, 1, *text::make_byte_tokenizer(), 258); }

  // The rows' texts: learned labels in brackets, segments separated.
  std::vector<std::string> rows() const {
    const RunData data = load();
    Batch batch;
    data.train.read({}, 0, static_cast<std::int64_t>(data.train.num_rows()), batch);
    std::vector<std::string> out;
    const auto width = static_cast<std::size_t>(batch.tokens_per_row);
    for (std::size_t row = 0; row < data.train.num_rows(); ++row) {
      std::string text;
      for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
        if (batch.segment_ids[i] == 0) break;
        if (batch.positions[i] == 0) text += text.empty() ? "" : " | ";
        if (batch.positions[i] == 0) text += shown(batch.tokens[i]);
        if (batch.labels[i] != kIgnoredLabel)
          text += "[" + shown(batch.labels[i]) + "]";
        else if (i + 1 < (row + 1) * width && batch.segment_ids[i + 1] == batch.segment_ids[i])
          text += shown(batch.tokens[i + 1]);
      }
      out.push_back(text);
    }
    return out;
  }

 private:
  static std::string shown(std::int32_t id) {
    if (id == 10) return "/";
    return id < 256 ? std::string(1, static_cast<char>(id)) : id == 257 ? "<eos>" : "<bos>";
  }

  TempDir dir_;
  config::DataSection section_;
};

using Rows = std::vector<std::string>;

TEST(ChatRecord, Example) {
  Chats chats(
      R"({"id": 5, "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]})");
  EXPECT_EQ(chats.rows(), Rows{"u:hi/a:[y][o][/]"});
  chats.section().loss_on = "all";
  EXPECT_EQ(chats.rows(), Rows{"u[:][h][i][/][a][:][y][o][/]"});
}

TEST(ChatRecord, AFileWithoutAnyAnswerHasNothingToLearn) {
  const std::string question = R"({"messages": [{"role": "user", "content": "hi"}]})";
  EXPECT_ERROR_SAYS(Chats(question + "\n" + question).load(), ExitCode::data,
                    "no token is in the loss: none of the 2 conversations has an answer\n"
                    "  the messages have the roles user; an answer has the role assistant");
  EXPECT_ERROR_SAYS(
      Chats(
          R"({"messages": [{"role": "user", "content": "a"}, {"role": "model", "content": "b"}]})")
          .load(),
      ExitCode::data,
      "no token is in the loss: the conversation has no answer\n"
      "  the messages have the roles user, model; an answer has the role assistant");
  EXPECT_ERROR_SAYS(Chats(R"({"messages": [{"role": "assistant", "content": "a"}]})").load(),
                    ExitCode::data,
                    "an answer follows another message, and neither \"weight\" nor \"train\" "
                    "excludes it");
  const RunData data = Chats(question + "\n" + R"({"prompt": "ab", "completion": "cd"})").load();
  EXPECT_EQ(data.train_sources.at(0).counts.num_unlearned_records, 1u);
  EXPECT_EQ(data.train_sources.at(0).counts.num_documents, 1u);
}

TEST(ChatRecord, MessagesAfterTheLastAnswerAreCountedWithTheirRoles) {
  Chats chats(
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}, {"role": "user", "content": "more"}, {"role": "model", "content": "m"}]})"
      "\n"
      R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "bot", "content": "y"}]})"
      "\n"
      R"({"prompt": "ab", "completion": "cd", "messages": [{"role": "robot", "content": "z"}]})");
  TokenSource source = chats.load().train_sources.at(0);
  EXPECT_EQ(source.counts.num_skipped_messages, 3u);
  EXPECT_EQ(source.counts.num_unlearned_records, 1u);
  EXPECT_EQ(source.skipped_roles, (Rows{"user", "model", "bot"}));
  chats.section().loss_on = "all";
  source = chats.load().train_sources.at(0);
  EXPECT_EQ(source.counts.num_skipped_messages, 0u);
  EXPECT_EQ(source.skipped_roles, Rows{});
}

TEST(ChatRecord, EveryPublishedFormIsRead) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]})",
       "u:hi/a:[y][o][/]"},
      {R"({"system": "S", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "y"}]})",
       "s:S/u:hi/a:[y][/]"},
      {R"({"conversations": [{"from": "human", "value": "h"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}, {"from": "observation", "value": "7"}, {"from": "gpt", "value": "y"}]})",
       "u:h/a:[f][/]t:7/a:[y][/]"},
      {R"({"instruction": "do", "input": "", "output": "ok"})", "u:do/a:[o][k][/]"},
      {R"({"instruction": "do", "input": "it", "output": "ok"})", "u:do/it/a:[o][k][/]"},
      {R"({"prompt": "ab", "completion": "cd"})", "<bos>ab[c][d][<eos>]"},
      {R"({"prompt": [{"role": "user", "content": "h"}], "completion": [{"role": "assistant", "content": "y"}]})",
       "u:h/a:[y][/]"},
      {R"({"tools": [{"name": "x"}], "messages": [{"role": "user", "content": "h"}, {"role": "assistant", "content": "y"}]})",
       "Txu:h/a:[y][/]"},
      {R"({"tools": "[{\"name\": \"x\"}]", "messages": [{"role": "user", "content": "h"}, {"role": "assistant", "content": "y"}]})",
       "Txu:h/a:[y][/]"},
  };
  for (const auto& [line, row] : cases) EXPECT_EQ(Chats(line).rows(), Rows{row}) << line;
}

TEST(ChatRecord, MembersThatAreNullAndPromptsForOtherUsesAreIgnored) {
  const std::string messages =
      R"("messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}])";
  const std::pair<std::string, const char*> cases[] = {
      {R"({"prompt": "hi", "prompt_id": "f0e3", )" + messages + "}", "u:hi/a:[y][o][/]"},
      {R"({"prompt": null, "completion": null, )" + messages + "}", "u:hi/a:[y][o][/]"},
      {R"({"prompt": "hi", "completion": null, )" + messages + "}", "u:hi/a:[y][o][/]"},
      {R"({"prompt": "ab", "completion": "cd", "messages": null})", "<bos>ab[c][d][<eos>]"},
      {R"({"prompt": "ab", "completion": "cd", )" + messages + "}", "<bos>ab[c][d][<eos>]"},
      {R"({"messages": null, "conversations": [{"from": "human", "value": "hi"}, )"
       R"({"from": "gpt", "value": "yo"}]})",
       "u:hi/a:[y][o][/]"},
      {R"({"messages": null, "conversations": null, "instruction": "do", "input": null, )"
       R"("output": "ok", "tools": null, "documents": null})",
       "u:do/a:[o][k][/]"},
  };
  for (const auto& [line, row] : cases) EXPECT_EQ(Chats(line).rows(), Rows{row}) << line;
  EXPECT_ERROR_SAYS(Chats(R"({"messages": null})").load(), ExitCode::data,
                    "has none of \"messages\", \"conversations\", \"instruction\" and \"prompt\"");
}

TEST(ChatRecord, ConversationsAreNeverCutInTheirMiddleAndSeeOnlyThemselves) {
  std::string lines;
  const char* names[] = {"one", "two", "three", "four", "five", "six"};
  for (const char* name : names)
    lines += R"({"messages": [{"role": "user", "content": ")" + std::string(name) +
             R"("}, {"role": "assistant", "content": "ok"}]})" + "\n";
  Chats chats(lines);
  const Rows packed = chats.rows();
  EXPECT_EQ(packed.size(), 2u);
  EXPECT_EQ(packed[0], "u:three/a:[o][k][/] | u:four/a:[o][k][/] | u:five/a:[o][k][/]");
  chats.section().pack = false;
  const Rows separate = chats.rows();
  ASSERT_EQ(separate.size(), 6u);
  std::string all;
  for (const std::string& row : packed) all += row + "\n";
  for (const std::string& row : separate) EXPECT_NE(all.find(row), all.npos) << row;
}

TEST(ChatRecord, TextThatDoesNotFitIsCutAndCounted) {
  Chats chats(
      R"({"messages": [{"role": "user", "content": "a question that is much longer than one row of this test"}, {"role": "assistant", "content": "y"}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "an answer that is much longer than one row of this test"}]})"
      "\n");
  const RunData data = chats.load();
  EXPECT_EQ(data.train.num_rows(), 1u);
  EXPECT_EQ(data.counts.num_unlearned_documents, 1u);
  EXPECT_EQ(data.counts.num_cut_documents, 1u);
  EXPECT_EQ(data.counts.num_cut_tokens, 62u - 41u);
  EXPECT_EQ(data.train.num_labels(), 41u - 6u);
}

TEST(ChatRecord, TheLastConversationsAreHeldOut) {
  std::string lines;
  for (char c = 'a'; c < 'k'; ++c)
    lines += R"({"prompt": "q", "completion": ")" + std::string(1, c) + "\"}\n";
  Chats chats(lines);
  chats.section().validation_fraction = 0.2;
  const RunData data = chats.load();
  ASSERT_EQ(data.validation.size(), 1u);
  EXPECT_EQ(data.validation[0].num_labels(), 4u);
  EXPECT_EQ(data.train.num_labels(), 16u);
  Batch batch;
  data.validation[0].read({}, 0, 1, batch);
  EXPECT_EQ(batch.tokens[2], 'i');
}

TEST(ChatRecord, InvalidConversationsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"text": "a"})",
       "the document has none of \"messages\", \"conversations\", \"instruction\" and \"prompt\""},
      {R"([])", "the document must be an object, got an array of 0"},
      {R"({"messages": [{"content": "a"}]})", "lacks the key 'role'"},
      {R"({"conversations": [{"from": "dog", "value": "a"}]})",
       "'conversations[0].from' must be \"human\", \"gpt\""},
      {R"({"prompt": "a"})", "the object has no 'completion'; it has prompt"},
      {R"({"prompt": "a", "chosen": "b", "rejected": "c"})",
       "the object has no 'completion'; it has prompt, chosen, rejected\n"
       "  a preference record: set data.form = \"preference\""},
      {R"({"chosen": "b", "rejected": "c"})",
       "\"instruction\" and \"prompt\"\n  a preference record: set data.form = \"preference\""},
      {R"({"instruction": "a", "answer": "b"})",
       "the object has no 'output'; it has instruction, answer"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "contents": "b"}]})",
       "'messages[1]' has the role assistant and no content, tool_calls or reasoning_content; it "
       "has role, contents\n  did you mean 'content' for 'contents'?"},
      {R"({"messages": [{"role": "user", "text": "a"}, {"role": "assistant", "content": "b"}]})",
       "'messages[0]' has the role user and no content; it has role, text"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": null}]})",
       "'messages[1]' has the role assistant and no content"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "asistant", "content": "d"}]})",
       "'messages[3].role' is not a role, got \"asistant\"\n  did you mean \"assistant\"?"},
      {R"({"messages": [{"role": "User", "content": "a"}, {"role": "assistant", "content": "b"}]})",
       "'messages[0].role' is not a role, got \"User\"\n  did you mean \"user\"?"},
      {R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "contents": "b"}]})",
       "'completion[0]' has the role assistant and no content"},
      {R"({"messages": [{"role": "martian", "content": "a"}, {"role": "assistant", "content": "b"}]})",
       "who is that?"},
  };
  for (const auto& [line, says] : cases) {
    Chats chats(std::string("{\"prompt\": \"a\", \"completion\": \"b\"}\n") + line);
    EXPECT_ERROR_SAYS(chats.load(), ExitCode::data, chats.file() + ":2: ");
    EXPECT_ERROR_SAYS(chats.load(), ExitCode::data, says);
    chats.section().bad_records = "skip";
    EXPECT_EQ(chats.load().train_sources[0].num_bad_records, 1u) << line;
  }
}

TEST(ChatRecord, MessagesWithoutContentAndOtherRolesAreRead) {
  const auto row = [](const std::string& more) {
    return Chats(R"({"messages": [{"role": "user", "content": "q"}, )" + more + "]}").rows();
  };
  EXPECT_EQ(
      row(R"({"role": "assistant", "content": null, "tool_calls": )"
          R"([{"function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "name": "f"}, )"
          R"({"role": "assistant", "content": "y"})"),
      Rows{"u:q/a:[f][/]t:/a:[y][/]"});
  for (const char* role :
       {"developer", "tool", "function", "ipython", "martial", "us", "buyer", "user2"})
    EXPECT_EQ(
        row(fmt::format(
            R"({{"role": "{}", "content": "z"}}, {{"role": "assistant", "content": "y"}})", role)),
        Rows{fmt::format("u:q/{}:z/a:[y][/]", role[0])})
        << role;
}

// Like some published templates: writes the last thought, and an empty thought if there is none.
constexpr const char* kThinkingTemplate =
    "{% for m in messages %}{{ m.role[0] }}:"
    "{% if m.role == 'assistant' and loop.last %}<{{ m.reasoning_content or '' }}>{% endif %}"
    "{{ m.content }}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}a:"
    "{% if enable_thinking is defined and not enable_thinking %}<>{% endif %}{% endif %}";

TEST(ChatRecord, ThoughtsAreLearnedUnlessTheyAreDropped) {
  const std::string user = R"({"role": "user", "content": "q"}, )";
  const auto rows = [&](const std::string& record, const char* thinking) {
    Chats chats(record, kThinkingTemplate);
    chats.section().thinking = thinking;
    return chats.rows();
  };
  for (const char* key : {"reasoning_content", "reasoning", "thinking"}) {
    const std::string record = "{\"messages\": [" + user +
                               R"({"role": "assistant", "content": "y", ")" + key + R"(": "t"}]})";
    EXPECT_EQ(rows(record, "keep"), Rows{"u:q/a:[<][t][>][y][/]"}) << key;
    EXPECT_EQ(rows(record, "drop"), Rows{"u:q/a:<>[y][/]"}) << key;
  }
  const std::string answer = R"(<think>\nt\n</think>\n\ny)";
  for (const std::string& record :
       {"{\"messages\": [" + user + R"({"role": "assistant", "content": ")" + answer + R"("}]})",
        R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": ")" +
            answer + R"("}]})",
        "{\"messages\": [" + user + R"({"role": "assistant", "content": "y"}],)" +
            R"( "chat_template_kwargs": {"enable_thinking": true}})"})
    EXPECT_EQ(rows(record, "drop"), Rows{"u:q/a:<>[y][/]"}) << record;
  // A mark that a user writes is not one.
  EXPECT_EQ(rows(R"({"messages": [{"role": "user", "content": "</think>q"}, )"
                 R"({"role": "assistant", "content": "y"}]})",
                 "drop"),
            Rows{"u:</think>q/a:<>[y][/]"});
}

TEST(ChatRecord, ReasoningInThePublishedFormOfTheTemplateIsDropped) {
  const auto dropped = [](const std::string& mark, const std::string& content) {
    const std::string source = kThinkingTemplate + ("{% if false %}" + mark + "{% endif %}");
    Chats chats(R"({"messages": [{"role": "user", "content": "q"}, )"
                R"({"role": "assistant", "content": )" +
                    content + "}]}",
                source.c_str());
    chats.section().thinking = "drop";
    return chats.rows();
  };
  const Rows without{"u:q/a:<>[y][/]"};
  EXPECT_EQ(dropped("[/THINK]", R"("[THINK]t[/THINK]y")"), without);
  EXPECT_EQ(dropped("<channel|>", R"("<|channel>thought\nt<channel|>y")"), without);
  EXPECT_EQ(dropped("</seed:think>", R"("<seed:think>t</seed:think>y")"), without);
  EXPECT_EQ(dropped("<|channel|>", R"("<|channel|>analysis<|message|>t<|end|><|start|>assistant)"
                                   R"(<|channel|>final<|message|>y")"),
            without);
  // Marks of other models are text.
  EXPECT_EQ(dropped("", R"("[/THINK]y")"), Rows{"u:q/a:<>[[][/][T][H][I][N][K][]][y][/]"});
}

TEST(ChatRecord, PartsWithReasoningAreDropped) {
  const char* const text_of_parts =
      "{% for m in messages %}{{ m.role[0] }}:{% if m.content is string %}{{ m.content }}"
      "{% else %}{% for p in m.content %}{{ p.type[1] }}{{ p.text }}{% endfor %}{% endif %}"
      "{{ '\n' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";
  Chats chats(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", )"
              R"("content": [{"type": "thinking", "thinking": "t"}, )"
              R"({"type": "text", "text": "<think>t</think>y"}]}]})",
              text_of_parts);
  chats.section().thinking = "drop";
  EXPECT_EQ(chats.rows(), Rows{"u:q/a:[e][y][/]"});
}

TEST(ChatRecord, AnswersThatSayNoAreReadAndNotLearned) {
  for (const char* no : {R"("weight": 0)", R"("train": false)"}) {
    const std::string key = no;
    EXPECT_EQ(Chats(R"({"messages": [{"role": "user", "content": "a"}, )"
                    R"({"role": "assistant", "content": "BAD", )" +
                    key +
                    R"(}, {"role": "user", "content": "c"}, )"
                    R"({"role": "assistant", "content": "d"}]})")
                  .rows(),
              Rows{"u:a/a:BAD/u:c/a:[d][/]"});
    EXPECT_EQ(Chats(R"({"conversations": [{"from": "human", "value": "a"}, )"
                    R"({"from": "gpt", "value": "BAD", )" +
                    key + R"(}, {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]})")
                  .rows(),
              Rows{"u:a/a:BAD/u:c/a:[d][/]"});
    EXPECT_ERROR_SAYS(Chats(R"({"prompt": [{"role": "user", "content": "a"}], )"
                            R"("completion": [{"role": "assistant", "content": "b", )" +
                            key + "}]}")
                          .load(),
                      ExitCode::data,
                      "is excluded from the loss, but every message of a completion is in the "
                      "loss");
  }
}

TEST(ChatRecord, MessagesNeedATemplate) {
  Chats chats(R"({"messages": [{"role": "user", "content": "a"}]})");
  chats.section().chat_template.reset();
  EXPECT_ERROR_SAYS(chats.load(), ExitCode::data,
                    "need a chat template, but data.tokenizer = \"byte\" has none");
  TempDir model;
  chats.section().tokenizer = model.path();
  EXPECT_ERROR_SAYS(
      chats.load(), ExitCode::data,
      "need a chat template, but " + model.path() + ", the directory of the tokenizer, has none");
  model.write("chat_template.jinja", "{% if %}");
  EXPECT_ERROR_SAYS(
      chats.load(), ExitCode::data,
      "set data.chat_template, or data.tokenizer to the directory of a model with one");
}

TEST(ChatRecord, TextsNeedNoTemplate) {
  Chats chats(R"({"prompt": "ab", "completion": "cd"})");
  const TempDir model;
  chats.section().chat_template.reset();
  chats.section().tokenizer = model.path();
  EXPECT_EQ(chats.rows(), Rows{"<bos>ab[c][d][<eos>]"});
}

}  // namespace
}  // namespace lamina::data
