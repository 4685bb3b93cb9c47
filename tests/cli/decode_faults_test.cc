// Faults of the prompt, the answer and the reader of the output: messages and exit codes of
// `decode` and `chat`.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "core/json.h"
#include "support/goldens.h"
#include "trained_run.h"

namespace lamina::cli {
namespace {

using lamina::testing::Finished;
using lamina::testing::run_shell;
using lamina::testing::TempDir;
using ::testing::HasSubstr;

const std::string kLamina = LAMINA_BUILD_DIR "/bin/lamina";

// A program connected by pipes. Started without a shell: a shell would make it ignore SIGINT.
class Conversant {
 public:
  explicit Conversant(std::vector<std::string> words) {
    words.insert(words.begin(), kLamina);
    EXPECT_EQ(pipe(in_), 0);
    EXPECT_EQ(pipe(out_), 0);
    EXPECT_EQ(pipe(err_), 0);
    child_ = fork();
    if (child_ == 0) {
      dup2(in_[0], 0);
      dup2(out_[1], 1);
      dup2(err_[1], 2);
      for (const int* ends : {in_, out_, err_}) {
        close(ends[0]);
        close(ends[1]);
      }
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(kLamina.c_str(), argv.data());
      _exit(127);
    }
    close(in_[0]);
    close(out_[1]);
    close(err_[1]);
  }
  ~Conversant() {
    for (const int end : {in_[1], out_[0], err_[0]})
      if (end >= 0) close(end);
  }

  void say(const char* line) const {
    ASSERT_EQ(write(in_[1], line, strlen(line)), static_cast<ssize_t>(strlen(line)));
  }
  // Reads at least `bytes` of the program's output; fewer at the end of the output.
  std::string read_some(std::size_t bytes) const {
    std::string text;
    char c = 0;
    while (text.size() < bytes && read(out_[0], &c, 1) == 1) text += c;
    return text;
  }
  void interrupt() const { kill(child_, SIGINT); }
  // Closes the program's input and waits for its exit.
  Finished finish() {
    close(in_[1]);
    in_[1] = -1;
    Finished result;
    result.out = read_some(SIZE_MAX);
    char c = 0;
    while (read(err_[0], &c, 1) == 1) result.err += c;
    int status = 0;
    waitpid(child_, &status, 0);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
  }

 private:
  int in_[2] = {-1, -1}, out_[2] = {-1, -1}, err_[2] = {-1, -1};
  pid_t child_ = -1;
};

// A model with a context long enough for an interrupt, with a tokenizer.
const std::string& long_model() {
  static const TempDir folder;
  static const std::string out = [] {
    std::string text = tiny_run_file(folder / "out");
    const std::string key = "max_position_embeddings = 64";
    text.replace(text.find(key), key.size(), "max_position_embeddings = 1000000");
    const Finished result = lamina_program({"train", folder.write("run.toml", text), "--quiet"});
    EXPECT_EQ(result.code, 0) << result.err;
    return folder / "out";
  }();
  return out;
}

// A published model whose tokenizer.json is replaced by `tokenizer`.
void publish(const TempDir& folder, const std::string& tokenizer) {
  const auto from = lamina::testing::golden_dir() / "hf" / "llama3_gqa";
  for (const char* file : {"config.json", "model.safetensors"})
    std::filesystem::create_symlink(std::filesystem::absolute(from / file), folder / file);
  folder.write("tokenizer.json", tokenizer);
}

std::string tokenizer_with(const std::string& vocab) {
  return R"({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
             "post_processor": null, "decoder": null,
             "model": {"type": "WordLevel", "unk_token": "a", "vocab": {)" +
         vocab + "}}}";
}

TEST(DecodeFaults, AnEmptyPromptIsTheTokenThatBeginsATextOrAnError) {
  const Finished begun = lamina_program({"decode", "-m", trained_run(), "-p", "", "-n", "1"});
  EXPECT_EQ(begun.code, 0) << begun.err;
  TempDir folder;
  publish(folder, tokenizer_with(R"("a": 0)"));
  const Finished refused = lamina_program({"decode", "-m", folder.path(), "-p", "", "-n", "1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err,
            "error: prompt: the prompt is empty and this tokenizer has no token that begins a "
            "text; give at least one character\n");
}

TEST(DecodeFaults, ATokenizerOfAnotherModelIsRecognised) {
  TempDir folder;
  publish(folder, tokenizer_with(R"("a": 0, "b": 5000)"));
  const Finished result = lamina_program({"decode", "-m", folder.path(), "-p", "b", "-n", "1"});
  EXPECT_EQ(result.code, 5);
  EXPECT_THAT(result.err, HasSubstr("the tokenizer encodes the prompt with id 5000; the model's "
                                    "vocabulary has 149"));
  EXPECT_EQ(lamina_program({"decode", "-m", folder.path(), "-p", "a", "-n", "1"}).code, 0);
}

TEST(DecodeFaults, APromptThatIsNotUtf8SaysWhere) {
  const std::string command = kLamina + " decode -n 2 -m " + trained_run();
  const Finished piped = run_shell("printf 'ab\\xe9\\xff' | " + command);
  EXPECT_EQ(piped.code, 5);
  EXPECT_THAT(piped.err, HasSubstr("stdin: is not UTF-8: byte 2 is 0xe9; text must be UTF-8\n  "
                                   "convert it, eg with `iconv -t utf-8`"));
  TempDir folder;
  const std::string file = folder.write("prompt.txt", "caf\xe9");
  const Finished read = run_shell(command + " -f " + file);
  EXPECT_EQ(read.code, 5);
  EXPECT_THAT(read.err, HasSubstr("prompt.txt: is not UTF-8: byte 3 is 0xe9"));
}

TEST(DecodeFaults, ACompressedPromptIsNoTextOfAnotherEncoding) {
  const std::string command = kLamina + " decode -n 2 -m " + trained_run();
  const Finished piped = run_shell("echo text | gzip | " + command);
  EXPECT_EQ(piped.code, 5);
  EXPECT_THAT(piped.err, HasSubstr("stdin: is compressed with gzip; expected text\n  "
                                   "unpack it with `gzip -d`"));
  TempDir folder;
  const std::string file = folder.write("prompt.txt", std::string("\xfd\x37zXZ\0", 6));
  const Finished read = run_shell(command + " -f " + file);
  EXPECT_EQ(read.code, 5);
  EXPECT_THAT(read.err, HasSubstr("prompt.txt: is compressed with xz; expected text\n  "
                                  "unpack it with `xz -d`"));
}

TEST(DecodeFaults, OneLineFeedAtTheEndOfAFileIsNoPartOfThePrompt) {
  TempDir folder;
  const std::string command = kLamina + " decode -n 1 --json -m " + trained_run();
  const auto num_tokens = [](const Finished& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    return JsonDocument::parse(result.out, "stdout")
        .root()
        .at("timings")
        .at("prompt_tokens")
        .as_int64();
  };
  const std::int64_t two = num_tokens(run_shell(command + " -p hi"));
  EXPECT_EQ(num_tokens(run_shell("echo hi | " + command)), two);
  EXPECT_EQ(num_tokens(run_shell("echo hi | " + command + " -f -")), two);
  EXPECT_EQ(num_tokens(run_shell("printf hi | " + command)), two);
  EXPECT_EQ(num_tokens(run_shell("printf 'hi\\n\\n' | " + command)), two + 1);
  EXPECT_EQ(num_tokens(run_shell(command + " -f " + folder.write("p.txt", "hi\n"))), two);
  EXPECT_EQ(num_tokens(run_shell(command + " -p $'hi\\n'")), two + 1);
}

// Its first line could contain a secret.
TEST(DecodeFaults, AFileThatIsNoModelIsNotShown) {
  TempDir folder;
  folder.write("secret.toml", "root:x:0:0\n");
  folder.write("adapter/adapter_config.json",
               R"({"peft_type": "LORA", "base_model_name_or_path": ")" +
                   folder.write("secret", "root:x:0:0\n") +
                   R"(", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]})");
  for (const auto& [name, code] : {std::pair{"secret.toml", 2}, {"secret", 4}, {"adapter", 4}}) {
    const Finished result = run_shell(kLamina + " decode -p x -m " + (folder / name));
    EXPECT_EQ(result.code, code) << name;
    EXPECT_EQ(result.err.find("root:"), std::string::npos) << result.err;
  }
  const Finished plan = run_shell(kLamina + " plan " + (folder / "secret"));
  EXPECT_EQ(plan.code, 2);
  EXPECT_EQ(plan.err.find("root:"), std::string::npos) << plan.err;
}

TEST(DecodeFaults, AClosedOutputEndsItWithoutAMessage) {
  const Finished result = run_shell(kLamina + " decode -m " + long_model() +
                                    " -p a -n 100000 --ignore-eos --ctx-size 100100 2>" +
                                    "/dev/null | head -c 3 "
                                    ">/dev/null; echo ${PIPESTATUS[0]}");
  EXPECT_EQ(result.out, "141\n");
}

TEST(DecodeFaults, AnInterruptEndsTheTextWithItsFigures) {
  Conversant decode({"decode", "-m", long_model(), "-p", "a", "-n", "100000", "--ignore-eos",
                     "--ctx-size", "100100", "--stats"});
  EXPECT_EQ(decode.read_some(3).size(), 3u);
  decode.interrupt();
  const Finished result = decode.finish();
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.err, HasSubstr("; interrupted"));
}

TEST(ChatFaults, AnInterruptEndsTheAnswerOnly) {
  TempDir folder;
  const std::string file = folder.write(
      "t.jinja", "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}|{% endfor %}a:");
  Conversant chat({"chat", "-m", long_model(), "--chat-template", file, "-n", "90000",
                   "--ignore-eos", "--ctx-size", "100000", "--stats"});
  chat.say("hi\n");
  EXPECT_EQ(chat.read_some(3).size(), 3u);  // in the middle of its answer
  chat.interrupt();
  // It reads input again, so the answer has ended.
  chat.say("/set max-new-tokens 2\n/reset\nhello\n");
  const Finished result = chat.finish();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("; interrupted"));
  EXPECT_THAT(result.err, HasSubstr("; stopped by the limit -n"));
}

TEST(ChatFaults, RolesThatTheTemplateRefusesAreTheUsersError) {
  TempDir folder;
  const std::string file = folder.write(
      "t.jinja",
      "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
      "{{ raise_exception('unknown role ' ~ m.role) }}{% endif %}{{ m.content }}{% endfor %}");
  const std::string messages = folder.write("m.json", R"([{"role": "robot", "content": "beep"}])");
  const Finished result = lamina_program({"decode", "--chat", "--messages", messages,
                                          "--chat-template", file, "-m", trained_run(), "-n", "1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("unknown role robot"));
  const Finished system = run_shell("printf 'hi\\n' | " + kLamina + " chat --system s -m " +
                                    trained_run() + " --chat-template " + file);
  EXPECT_EQ(system.code, 2);
  EXPECT_THAT(system.err, HasSubstr("unknown role system"));
}

TEST(ChatFaults, WarnsAboutToolsAndMessagesThatTheTemplateOmits) {
  TempDir folder;
  const std::string deaf =
      folder.write("deaf.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string reads = folder.write(
      "reads.jinja", "{{ tools | length }}{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::string tools = folder.write("tools.json", R"([{"name": "f"}, {"name": "g"}])");
  const auto decode = [&](const std::string& form, std::vector<std::string> more) {
    more.insert(more.begin(),
                {"decode", "--chat", "-m", trained_run(), "-n", "1", "--chat-template", form});
    return lamina_program(more);
  };
  const std::string says = "warning: the chat template does not write the tools";
  const Finished unread = decode(deaf, {"-p", "x", "--tools", tools});
  EXPECT_EQ(unread.code, 0) << unread.err;
  EXPECT_THAT(unread.err, HasSubstr(says));
  const Finished read = decode(reads, {"-p", "x", "--tools", tools});
  EXPECT_EQ(read.code, 0) << read.err;
  EXPECT_EQ(read.err.find(says), read.err.npos);
  const Finished chat = run_shell("printf 'hi\n' | " + kLamina + " chat -n 1 -m " + trained_run() +
                                  " --tools " + tools + " --chat-template " + deaf);
  EXPECT_THAT(chat.err, HasSubstr(says));

  const std::string none = folder.write("none.json", "[]");
  const Finished empty = decode(deaf, {"--messages", none});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, HasSubstr("error: " + none +
                                   ": has no messages; expected at least one\n"
                                   "  eg: [{\"role\": \"user\", \"content\": \"hello\"}]\n"));
  const std::string silent =
      folder.write("silent.json", R"([{"role": "user"}, {"role": "user", "content": "x"}])");
  const Finished without = decode(deaf, {"--messages", silent});
  EXPECT_THAT(without.err,
              HasSubstr("silent.json: message 1 has the role user and no \"content\""));
}

TEST(ChatFaults, AChatNeedsATokenizer) {
  const auto model = lamina::testing::golden_dir() / "hf" / "llama3_gqa";
  TempDir folder;
  const std::string file = folder.write("t.jinja", "x");
  const Finished result = run_shell("printf 'hi\\n' | " + kLamina + " chat -m " + model.string() +
                                    " --chat-template " + file);
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("has no tokenizer, so it cannot chat"));
}

}  // namespace
}  // namespace lamina::cli
