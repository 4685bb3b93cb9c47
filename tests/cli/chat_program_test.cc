// `decode --chat` and `chat`, driven by pipes: input, session state, refusals and exit codes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "chat/small_tokenizer.h"
#include "cli/generate/answer_display.h"
#include "cli/shell/terminal.h"
#include "core/json_writer.h"
#include "core/printable.h"
#include "trained_run.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_shell;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

const std::string kProgram = LAMINA_BUILD_DIR "/bin/lamina";

// The context of the tiny model is 64 bytes.
constexpr const char* kTemplate =
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}a:";

class ChatProgram : public ::testing::Test {
 protected:
  std::string write_template(const std::string& text = kTemplate) {
    return folder.write("t.jinja", text);
  }
  std::string options() {
    return " -m " + trained_run() + " --temp 0 --dtype float32 --chat-template " + write_template();
  }
  Finished chat(const std::string& lines, const std::string& more = "") {
    return run_shell("printf '" + lines + "' | " + kProgram + " chat" + options() + " " + more);
  }
  TempDir folder;
};

std::string text_of(const Finished& result) {
  EXPECT_EQ(result.code, 0) << result.err;
  if (result.code != 0) return {};
  return std::string(JsonDocument::parse(result.out, "stdout").root().at("text").as_string());
}

TEST_F(ChatProgram, DecodeChatReadsTheRenderedTemplate) {
  const std::string common = kProgram + " decode -n 6 --json";
  const std::string asked = text_of(run_shell(common + options() + " --chat --system s -p 'hi'"));
  const std::string plain = text_of(
      run_shell(common + " -m " + trained_run() + " --temp 0 --dtype float32 -p 's:s|u:hi|a:'"));
  const std::string messages = folder.write(
      "m.json", R"([{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}])");
  EXPECT_EQ(text_of(run_shell(common + options() + " --chat --messages " + messages)), asked);
  // The byte tokenizer puts a token before plain prompts, but not before rendered templates.
  EXPECT_FALSE(asked.empty() && plain.empty());
}

TEST_F(ChatProgram, ReadsMessagesFromStdin) {
  const std::string messages = R"([{"role": "user", "content": "hi"}])";
  const std::string command = kProgram + " decode -n 6 --json" + options() + " --chat --messages ";
  EXPECT_EQ(text_of(run_shell("echo '" + messages + "' | " + command + "-")),
            text_of(run_shell(command + folder.write("m.json", messages))));
}

TEST_F(ChatProgram, ReadsTheContextOfATemplateFromStdin) {
  const Finished result =
      run_shell(R"(echo '{"messages": [{"role": "user", "content": "hi"}]}' | )" + kProgram +
                " template " + write_template() + " --context -");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "u:hi|a:");
}

TEST_F(ChatProgram, ContinuesTheLastMessage) {
  const std::string common = kProgram + " decode -n 6 --json";
  const std::string messages = folder.write("m.json",
                                            R"([{"role": "user", "content": "hi"},
                                                {"role": "assistant", "content": "He s"}])");
  // Has neither the separator that would end the message nor the start of a new answer.
  const std::string t = write_template(
      "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}");
  const std::string chat = " -m " + trained_run() + " --temp 0 --dtype float32 --chat-template " +
                           t + " --chat --messages ";
  const std::string plain =
      folder.write("plain.json", R"([{"role": "user", "content": "hi|a:He s"}])");
  const std::string bare = folder.write("bare.jinja", "u:{{ messages[0].content }}");
  EXPECT_EQ(text_of(run_shell(common + chat + messages + " --continue")),
            text_of(run_shell(common + " -m " + trained_run() +
                              " --temp 0 --dtype float32 --chat --chat-template " + bare +
                              " --messages " + plain)));
  EXPECT_NE(text_of(run_shell(common + chat + messages + " --continue")),
            text_of(run_shell(common + chat + messages)));
}

TEST_F(ChatProgram, AModelWithoutATemplateIsRefused) {
  for (const char* command : {"decode --chat -p hi", "chat"}) {
    const Finished result = run_shell(kProgram + " " + command + " -m " + trained_run());
    EXPECT_EQ(result.code, 5);
    EXPECT_THAT(result.err, HasSubstr("has no chat template"));
    EXPECT_EQ(result.out, "");
  }
  // Its advice is about the command that was given.
  const std::string records = folder.write("r.jsonl", R"({"prompt": "a", "answer": "b"})");
  const Finished result =
      run_shell(kProgram + " eval --task answers --chat -d " + records + " -m " + trained_run());
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("so it is not a chat model\n  give one with --chat-template "
                                    "FILE, or remove --chat\n"));
}

TEST_F(ChatProgram, OptionsOfAChatNeedIt) {
  const std::pair<const char*, const char*> cases[] = {
      {"--system x -p hi", "error: --system: needs --chat; add it\n"},
      {"--messages m.json", "error: --messages: needs --chat; add it\n"},
      {"--chat --ids 1,2", "error: --ids: cannot be combined with --chat; remove one of them\n"},
      {"--chat -p hi --messages m.json",
       "error: prompt: -p and --messages cannot be combined: each sets the prompt\n  keep one of "
       "them\n"},
  };
  for (const auto& [words, says] : cases) {
    const Finished result = run_shell(kProgram + " decode -m x " + words);
    EXPECT_EQ(result.code, 2) << words;
    EXPECT_EQ(result.err, says);
  }
}

TEST_F(ChatProgram, ErrorsOfTemplatesAreTheUsersAndHavePlaces) {
  const std::pair<const char*, const char*> cases[] = {
      {"{{ raise_exception('roles must alternate') }}", ":1:4: roles must alternate"},
      {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
       "steps; a template may take no more"},
      {"{% if %}", ":1:7: got the end of the statement; expected an expression"},
  };
  for (const auto& [source, says] : cases) {
    const std::string file = write_template(source);
    const Finished result = run_shell(kProgram + " decode --chat -p hi -m " + trained_run() +
                                      " --chat-template " + file);
    EXPECT_EQ(result.code, 2) << source;
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_EQ(result.out, "");
  }
}

// Reading two turns of a session must give the same result as reading the whole conversation at
// once.
TEST_F(ChatProgram, ALaterTurnReadsOnlyItsOwnTokens) {
  const std::string saved = folder / "saved.json";
  const Finished session = chat("hi\\nyo\\n/save " + saved + "\\n", "-n 1 --stats");
  ASSERT_EQ(session.code, 0) << session.err;
  const JsonDocument kept = JsonDocument::read(saved);
  const JsonValue messages = kept.root().at("messages");
  ASSERT_EQ(messages.size(), 4u);
  const std::string first(messages.element(1).at("content").as_string());
  const std::string second(messages.element(3).at("content").as_string());
  EXPECT_EQ(session.out, first + "\n" + second + "\n");
  EXPECT_THAT(session.err, HasSubstr("read 7 of 7 tokens"));
  // The state holds "u:hi|a:". New are the answer, which was generated but not read, and
  // "|u:yo|a:".
  EXPECT_THAT(session.err,
              HasSubstr(fmt::format("read {} of {} tokens", first.size() + 8, first.size() + 15)));
  const std::string afresh = folder.write("afresh.json", R"([{"role": "user", "content": "hi"},
        {"role": "assistant", "content": )" + json_quote(first) +
                                                             R"(},
        {"role": "user", "content": "yo"}])");
  EXPECT_EQ(
      text_of(run_shell(kProgram + " decode --json -n 1 --chat --messages " + afresh + options())),
      second);
}

TEST_F(ChatProgram, TalksWithAnAdapter) {
  const std::string none = folder / "none";
  const Finished result = chat("hi\\n", "--adapter " + none);
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr(none));
}

// Only a shell knows the home directory: a folder "~" would be made.
TEST_F(ChatProgram, AFileBelowTheHomeDirectoryIsRefused) {
  const Finished session = chat("hi\\n/save ~/x.json\\n", "-n 1");
  EXPECT_THAT(session.err, HasSubstr("/save: the file must not begin with ~\n  only a shell"));
}

TEST_F(ChatProgram, CommandsChangeTheConversation) {
  const std::string saved = folder / "saved.json";
  const Finished session = chat(
      "a\\n/reset\\n/system be "
      "terse\\n\\\"\\\"\\\"\\nb\\nc\\n\\\"\\\"\\\"\\n/regen\\nd\\\\\\ne\\n/set "
      "temp 0.5\\n/set\\n/save " +
          saved + "\\n",
      "-n 2");
  ASSERT_EQ(session.code, 0) << session.err;
  const JsonDocument kept = JsonDocument::read(saved);
  const JsonValue messages = kept.root().at("messages");
  ASSERT_EQ(messages.size(), 5u);
  EXPECT_EQ(messages.element(0).at("content").as_string(), "be terse");
  EXPECT_EQ(messages.element(1).at("content").as_string(), "b\nc");
  EXPECT_EQ(messages.element(3).at("content").as_string(), "d\ne");
  EXPECT_THAT(session.out, HasSubstr("temp                0.5\n"));
  const Finished loaded = chat("/load " + saved + "\\nx\\n", "-n 1 --stats");
  EXPECT_EQ(loaded.code, 0) << loaded.err;
}

TEST_F(ChatProgram, AMessageBetweenQuotesIsNotACommand) {
  const std::string saved = folder / "saved.json";
  const std::string quotes = R"("""\n)";
  const Finished session = chat(quotes + R"(/etc/hosts\nx\n)" + quotes + quotes + R"(/help\n)" +
                                    quotes + "/save " + saved + R"(\n)",
                                "-n 1");
  ASSERT_EQ(session.code, 0) << session.err;
  const JsonDocument kept = JsonDocument::read(saved);
  const JsonValue messages = kept.root().at("messages");
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages.element(0).at("content").as_string(), "/etc/hosts\nx");
  EXPECT_EQ(messages.element(2).at("content").as_string(), "/help");
}

TEST_F(ChatProgram, EveryOptionOfGeneratingCanBeSet) {
  const Finished session = chat(
      "/set bad-ids 1,2 3\\n/set suppress-ids 4,5\\n/set logit-bias 6=1 7=-2\\n/set stop a b\\n"
      "/set min-tokens 2\\n/set ignore-eos on\\n/set\\n/set bad-ids\\n/set suppress-ids\\n/set\\n");
  ASSERT_EQ(session.code, 0) << session.err;
  for (const char* line :
       {"bad-ids             1,2 3\n", "suppress-ids        4,5\n",
        "logit-bias          6=1 7=-2\n", "stop                a b\n", "min-tokens          2\n",
        "ignore-eos          on\n", "bad-ids             none\n", "suppress-ids        none\n"})
    EXPECT_THAT(session.out, HasSubstr(line));
}

// Values as /set shows them can be given to it.
TEST_F(ChatProgram, NoneEmptiesAListAndControlCharactersAreQuoted) {
  const Finished session =
      chat("/set\\n/set stop none\\n/set bad-ids 1,2\\n/set bad-ids none\\n/set\\n",
           "--stop $'\\n' --stop b");
  ASSERT_EQ(session.code, 0) << session.err;
  EXPECT_THAT(session.out, HasSubstr("  stop                \"\\n\" b\n"));
  EXPECT_THAT(session.out, HasSubstr("  stop                none\n"));
  EXPECT_THAT(session.out, HasSubstr("  bad-ids             none\n"));
  const Finished number = chat("/set top-k none\\n");
  EXPECT_EQ(number.code, 2);
  EXPECT_THAT(number.err, HasSubstr("error: /set: 'top-k' must be an integer"));
}

TEST_F(ChatProgram, CommandsWithoutAnAnswerConfirmWhatTheyDid) {
  const std::string saved = folder / "saved.json";
  const Finished session = chat("/system be terse\\n/save " + saved + "\\n/system\\n/load " +
                                saved + "\\n/quit\\nhi\\n");
  EXPECT_EQ(session.code, 0) << session.err;
  EXPECT_EQ(session.out, "");  // the message after /quit is not read
  EXPECT_THAT(session.err, HasSubstr("the system message is set\nsaved 1 message as '" + saved +
                                     "'\nthe system message is removed\nloaded 1 message from '" +
                                     saved + "'\n"));
  EXPECT_EQ(chat("/exit\\nhi\\n").out, "");
}

// The conversation in a file precedes the options; what it lacks comes from them.
TEST_F(ChatProgram, LoadingKeepsToolsSystemMessageAndVariables) {
  const std::string saved = folder / "saved.json";
  const std::string file = folder.write(
      "m.json",
      R"({"messages": [{"role": "user", "content": "hi"}], "documents": [{"text": "d"}]})");
  const std::string tools = folder.write("tools.json", R"([{"type": "function"}])");
  const Finished session =
      chat("/load " + file + "\\n/save " + saved + "\\n", "--system terse --tools " + tools);
  ASSERT_EQ(session.code, 0) << session.err;
  EXPECT_THAT(session.err, HasSubstr("loaded 1 message from"));
  const JsonDocument kept = JsonDocument::read(saved);
  EXPECT_EQ(kept.root().at("messages").element(0).at("content").as_string(), "terse");
  EXPECT_EQ(kept.root().at("messages").element(1).at("content").as_string(), "hi");
  EXPECT_EQ(kept.root().at("tools").size(), 1u);
  EXPECT_EQ(kept.root().at("documents").size(), 1u);
}

TEST_F(ChatProgram, MistakesInAPipeEndItWithTheirWords) {
  const std::pair<const char*, const char*> cases[] = {
      {"/rest\\n", "error: chat: unknown command '/rest'\n  did you mean '/reset'?\n"},
      {"/set tmp 1\\n", "error: /set: unknown setting 'tmp'; did you mean 'temp'?\n"},
      {"/set temp -1\\n", "error: /set: 'temp' must be a number, at least 0, got -1\n"},
      {"/set thinking maybe\\n", "error: /set: 'thinking' must be on or off, got 'maybe'\n"},
      {"/set ignore-eos 1\\n", "error: /set: 'ignore-eos' must be on or off, got '1'\n"},
      {"/set bad-ids 1,x\\n",
       "error: /set: got '1,x'; expected numbers separated by commas, eg 1,2,3\n"},
      {"/set suppress-ids 1,2 3\\n",
       "error: /set: got '1,2 3'; expected numbers separated by commas, eg 1,2,3\n"},
      {"/save\\n", "error: /save: needs a file name\n"},
      {"/regen\\n", "error: /regen: there is no answer yet\n"},
  };
  for (const auto& [lines, says] : cases) {
    const Finished result = chat(lines);
    EXPECT_EQ(result.code, 2) << lines;
    EXPECT_EQ(result.err, says);
  }
  const Finished unsaved = chat("/save " + folder.path() + "/none/c.json\\n");
  EXPECT_EQ(unsaved.code, 4);
  EXPECT_THAT(unsaved.err, HasSubstr("none/c.json"));
  const Finished latin = chat("caf\\xe9\\n");
  EXPECT_EQ(latin.code, 5);
  EXPECT_THAT(latin.err, HasSubstr("the input: is not UTF-8: byte 3 is 0xe9"));
}

TEST_F(ChatProgram, AConversationLongerThanTheContextSaysSo) {
  const Finished result = chat(std::string(70, 'x') + "\\n");
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err,
              HasSubstr("error: chat: the conversation has 75 tokens; the context has room for "
                        "64\n  start again with /reset"));
}

TEST_F(ChatProgram, EndsQuietlyWhenItsReaderGoesAway) {
  const Finished result = run_shell("yes $'hi\\n/reset' | " + kProgram + " chat" + options() +
                                    " -n 1 2>/dev/null | head -c 1 >/dev/null; "
                                    "echo ${PIPESTATUS[1]}");
  EXPECT_EQ(result.out, "141\n");
}

// Started without a shell: a shell would make it ignore the signal.
TEST_F(ChatProgram, AnInterruptDoesNotEndTheSession) {
  const std::string file = write_template();
  int in[2], out[2];
  ASSERT_EQ(pipe(in), 0);
  ASSERT_EQ(pipe(out), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    for (const int descriptor : {in[0], in[1], out[0], out[1]}) close(descriptor);
    execl(kProgram.c_str(), "lamina", "chat", "-m", trained_run().c_str(), "--chat-template",
          file.c_str(), "-n", "2", "--temp", "0", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  const auto say = [&](const char* line) {
    ASSERT_EQ(write(in[1], line, strlen(line)), static_cast<ssize_t>(strlen(line)));
  };
  const auto read_line = [&] {
    char c = 0;
    while (read(out[0], &c, 1) == 1 && c != '\n') continue;
    return c == '\n';
  };
  say("/set temp 0.5\n/set\n");
  EXPECT_TRUE(read_line());  // it has started and installed its handlers
  kill(child, SIGINT);
  say("hi\n");
  close(in[1]);
  int lines = 0;
  while (read_line()) ++lines;
  close(out[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_GE(lines, 8);  // the settings and an answer
}

// The exported tiny model with these control tokens in its vocabulary, from kFirstControl up.
class SpeakingModel {
 public:
  static constexpr int kFirstControl = 100;

  explicit SpeakingModel(std::vector<std::string> controls, const std::string& source = "q")
      : controls_(std::move(controls)) {
    const Finished exported = ckpt({"export", trained_run(), "--to", path()});
    EXPECT_EQ(exported.code, 0) << exported.err;
    folder_.write("model/tokenizer.json",
                  lamina::testing::tokenizer_json(controls_, kFirstControl));
    folder_.write("model/chat_template.jinja", source);
  }

  std::string path() const { return folder_ / "model"; }
  // Options that make the model write `answer`, in which control tokens are spelt out.
  std::string saying(std::string_view answer) const {
    std::string ids;
    int count = 0;
    while (!answer.empty()) {
      int id = answer[0] == ' ' ? 94 : answer[0] == '\n' ? 95 : answer[0] - 33;
      std::size_t length = 1;
      for (std::size_t i = 0; i < controls_.size(); ++i)
        if (answer.starts_with(controls_[i])) {
          id = kFirstControl + static_cast<int>(i);
          length = controls_[i].size();
        }
      answer.remove_prefix(length);
      ids += (ids.empty() ? "" : ",") + std::to_string(id);
      ++count;
    }
    return fmt::format(" -m {} --dtype float32 --force-first-ids {} -n {}", path(), ids, count);
  }

 private:
  TempDir folder_;
  std::vector<std::string> controls_;
};

struct Said {
  std::vector<std::string> controls;
  std::string answer;
  std::string more = "";  // options
};

const Said kThoughts[] = {
    {{"<|channel|>", "<|message|>", "<|end|>", "<|start|>"},
     "<|channel|>analysis<|message|>Hmm 2+2.<|end|><|start|>assistant<|channel|>final<|message|>4"},
    {{"<|channel>", "<channel|>"}, "<|channel>thought\nHmm 2+2.\n<channel|>4"},
    {{"[THINK]", "[/THINK]"}, "[THINK]Hmm 2+2.[/THINK]4"},
    {{"<think>", "</think>"}, "<think>Hmm 2+2.</think>4"},
    {{"<|x|>"}, "<think>Hmm 2+2.</think>4"},
    {{"<|x|>"}, "<|x|>Hmm 2+2.==4", " --reasoning-begin '<|x|>' --reasoning-end =="},
};

TEST(ChatReasoning, IsSeparateInJsonForEveryPublishedForm) {
  for (const Said& said : kThoughts) {
    const SpeakingModel model(said.controls);
    const Finished result =
        run_shell(kProgram + " decode --chat -p hi --json" + model.saying(said.answer) + said.more);
    ASSERT_EQ(result.code, 0) << result.err;
    const JsonDocument json = JsonDocument::parse(result.out, "stdout");
    EXPECT_EQ(json.root().at("reasoning_content").as_string(), "Hmm 2+2.") << said.answer;
    EXPECT_EQ(json.root().at("content").as_string(), "4") << said.answer;
  }
}

TEST(ChatReasoning, IsApartInSavedConversations) {
  for (const Said& said : kThoughts) {
    const SpeakingModel model(said.controls);
    TempDir folder;
    const Finished result = run_shell("printf 'q\\n/save " + (folder / "s.json") + "\\n' | " +
                                      kProgram + " chat" + model.saying(said.answer) + said.more);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.out, ::testing::MatchesRegex("<think>\n?Hmm 2\\+2\\.\n?</think>4\n"));
    const JsonDocument saved = JsonDocument::read(folder / "s.json");
    const JsonValue answer = saved.root().at("messages").element(1);
    EXPECT_EQ(answer.at("reasoning_content").as_string(), "Hmm 2+2.") << said.answer;
    EXPECT_EQ(answer.at("content").as_string(), "4") << said.answer;
  }
}

TEST(ChatReasoning, ThatBeganBeforeTheOutputIsEndedByItsMark) {
  const SpeakingModel model({"<|x|>"}, "{% for m in messages %}{{ m.content }}{% endfor %}");
  TempDir folder;
  const std::string messages = folder.write(
      "m.json",
      R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>Hm"}])");
  const Finished result = run_shell(kProgram + " decode --chat --continue --messages " + messages +
                                    model.saying("m.</think>4"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "m.</think>4");
}

// The template of the second turn sees the first answer without its reasoning.
TEST(ChatReasoning, ReachesTheNextPromptAsTheTemplateWants) {
  const SpeakingModel model({"[THINK]", "[/THINK]"},
                            "{% for m in messages %}{% if m.role == 'assistant' %}"
                            "{{ raise_exception(m.thinking ~ '|' ~ m.content) }}{% endif %}"
                            "{{ m.content }}{% endfor %}");
  const Finished result =
      run_shell("printf 'q\\nr\\n' | " + kProgram + " chat" + model.saying("[THINK]Hmm[/THINK]4"));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("Hmm|4"));
}

TEST(ChatReasoning, MarksOfTheUserComeInPairs) {
  for (const char* command : {"decode --chat -p hi", "chat"}) {
    const std::string line = kProgram + " " + command + " -m x --reasoning-begin ";
    const Finished alone = run_shell(line + "a");
    EXPECT_EQ(alone.code, 2);
    EXPECT_EQ(alone.err, "error: --reasoning-begin: requires --reasoning-end\n");
    EXPECT_EQ(run_shell(line + "'' --reasoning-end b").err,
              "error: --reasoning-begin: got ''; expected at least one character\n");
    EXPECT_EQ(run_shell(line + "b --reasoning-end b").err,
              "error: --reasoning-end: is 'b', as --reasoning-begin; expected another text, or "
              "reasoning never ends\n");
  }
}

// On a terminal of 80 columns, created by util-linux's script.
Finished on_terminal(const std::string& line) {
  return run_shell("TERM=dumb script -qec '" + line + "' /dev/null </dev/null");
}

TEST(ModelText, ControlCharactersAreEscapedOnATerminal) {
  // ESC ] 0 ; p w n BEL
  const std::string ids = "27,93,48,59,112,119,110,7";
  const std::string decode = kProgram + " decode -q --no-stats -m " + trained_run() +
                             " -p hi --temp 0 -n 8 --force-first-ids " + ids;
  TempDir folder;
  const std::string source = folder.write("t.jinja", "{{ x }}");
  const std::string context = folder.write("c.json", R"({"x": "\u001b]0;pwn\u0007"})");
  const std::string lines[] = {
      decode, decode + " --chat --chat-template " + folder.write("u.jinja", "u"),
      "echo hi | " + kProgram + " chat -q -m " + trained_run() + " --chat-template " +
          (folder / "u.jinja") + " --temp 0 -n 8 --force-first-ids " + ids,
      kProgram + " tokenize -m " + trained_run() + " --decode --ids " + ids,
      kProgram + " template " + source + " --context " + context};
  for (const std::string& line : lines) {
    const Finished shown = on_terminal(line);
    EXPECT_THAT(shown.out, HasSubstr("\\x1b]0;pwn\\x07")) << line << shown.err;
    EXPECT_EQ(shown.out.find('\x1b'), std::string::npos) << line;
    EXPECT_THAT(on_terminal(line + " --raw").out, HasSubstr("\x1b]0;pwn\x07")) << line;
    EXPECT_THAT(run_shell(line).out, HasSubstr("\x1b]0;pwn\x07")) << line;
  }
}

TEST(ModelText, OverridesOfDirectionAreEscapedAndTheRestIsNot) {
  EXPECT_EQ(printable_lines("a\tb\n\xc3\xa9 \xe2\x80\xae\xe2\x81\xa6 \xe2\x80\x94\r\xc2\x9b"),
            "a\tb\n\xc3\xa9 \\xe2\\x80\\xae\\xe2\\x81\\xa6 \xe2\x80\x94\\x0d\\xc2\\x9b");
}

TEST(AnswerDisplay, DimsReasoningWhereverTheTextIsCut) {
  const std::string text = "<think>\nhm</think>\n\nyes <thin";
  const chat::ReasoningMarks marks;
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    std::string shown;
    AnswerDisplay display(marks, false, {.dim_reasoning = true},
                          [&](std::string_view piece) { shown += piece; });
    display.push(text.substr(0, cut));
    display.push(text.substr(cut));
    EXPECT_EQ(display.finish().answer, "yes <thin");
    EXPECT_EQ(shown, "\x1b[2m<think>\nhm</think>\x1b[0m\n\nyes <thin") << cut;
  }
  std::string shown;
  AnswerDisplay inside(marks, true, {.dim_reasoning = true, .escape_controls = true},
                       [&](std::string_view piece) { shown += piece; });
  inside.push("h\x1bm");
  inside.finish();
  EXPECT_EQ(shown, "\x1b[2m<think>h\\x1bm</think>\x1b[0m");
}

// As after --continue inside reasoning.
TEST(AnswerDisplay, EndsReasoningThatBeganBeforeTheAnswer) {
  const chat::ReasoningMarks marks;
  for (const std::string answer : {"", "\n\nyes</think>"}) {
    const std::string text = "hm</think>" + answer;
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      std::string shown;
      AnswerDisplay display(marks, false, {.dim_reasoning = true},
                            [&](std::string_view piece) { shown += piece; });
      display.push(text.substr(0, cut));
      display.push(text.substr(cut));
      EXPECT_EQ(display.finish().reasoning, "hm");
      EXPECT_EQ(shown, text) << cut;
    }
  }
}

TEST(AnswerDisplay, AnErrorInsideReasoningEndsTheDimming) {
  const chat::ReasoningMarks marks;
  std::string shown;
  {
    AnswerDisplay display(marks, true, {.dim_reasoning = true},
                          [&](std::string_view piece) { shown += piece; });
    display.push("hm");
  }
  EXPECT_EQ(shown, "\x1b[2m<think>hm\x1b[0m");
  shown.clear();
  {
    AnswerDisplay(marks, true, {}, [&](std::string_view piece) { shown += piece; }).push("hm");
  }
  EXPECT_EQ(shown, "<think>hm");
}

TEST(AnswerDisplay, AnErrorOfTheOutputIsNotFollowedByAnother) {
  const chat::ReasoningMarks marks;
  int calls = 0;
  const auto fail = [&](std::string_view) {
    ++calls;
    throw UserError(ExitCode::checkpoint, {"stdout", "is full", {}});
  };
  EXPECT_THROW(AnswerDisplay(marks, true, {.dim_reasoning = true}, fail).push("hm"), UserError);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace lamina::cli
