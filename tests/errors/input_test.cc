// Unreadable input: the program does not hang, and every skipped input is reported.
#include <sys/stat.h>

#include <filesystem>

#include "errors/workplace.h"
#include "io/safetensors_writer.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kLamina = LAMINA_BUILD_DIR "/bin/lamina";

constexpr const char* kSmallTokenizer =
    R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
"post_processor":null,
"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0},"merges":[]}})";

// A copy of a published model that a test may change.
void copy_model(const Workplace& w, const std::string& golden, const std::string& name) {
  fs::copy(golden_model(golden), w.path(name));
  for (const auto& file : fs::directory_iterator(w.path(name)))
    fs::permissions(file.path(), fs::perms::owner_all);
}

void replace(const Workplace& w, const std::string& file, const std::string& from,
             const std::string& to) {
  std::string text = w.read(file);
  ASSERT_NE(text.find(from), text.npos) << from;
  w.write(file, text.replace(text.find(from), from.size(), to));
}

TEST(InputErrors, TheBannerCountsEverySource) {
  Workplace w;
  w.write("books/a.txt", "one\n");
  w.write("books/deep/b.txt", std::string(496, 'x'));
  fs::create_directory_symlink("../books/deep", w.path("books/link"));
  Finished f =
      w.lamina({"train", "run.toml", "--set", "data.train=[\"books\", \"text.txt\"]", "--set",
                "data.validation=[\"books/a.txt\"]", "--set", "data.sequence_length=4"});
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_THAT(f.err, HasSubstr("books: 2 files, 500 B, 2 documents, 504 tokens\n"));
  EXPECT_THAT(f.err, HasSubstr("text.txt: 1 file, "));
  EXPECT_THAT(f.err,
              ContainsRegex("validation, .*books/a.txt: 1 file, 4 B, 1 document, 6 tokens\n"));
  EXPECT_THAT(w.read("out/log.txt"), HasSubstr("books: 2 files, 500 B, 2 documents"));
}

TEST(UnreadableData, ADanglingLinkEndsTheRunBeforeItBegins) {
  Workplace w;
  w.write("books/a.txt", "one\n");
  fs::create_symlink("gone", w.path("books/b.txt"));
  w.expect(
      {{"train", "run.toml", "--set", "data.train=books"}, 5, {"books/b.txt: is a dangling link"}});
  EXPECT_FALSE(w.exists("out"));
}

TEST(InputErrors, AFileWhoseStatusIsUnknownHasTheCodeOfItsKind) {
  Workplace w;
  for (const char* name : {"loop.toml", "loop.lamina.so"}) fs::create_symlink(name, w.path(name));
  const std::string loop = "cannot be read: too many levels of symbolic links", long_name(300, 'a'),
                    too_long = "cannot be read: file name too long";
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"train"}, {"config", "show"}, {"plan"}, {"explain"}, {"bench", "decode", "-m"}}) {
    const auto of = [&](const std::string& file) {
      std::vector<std::string> words = command;
      words.push_back(file);
      return words;
    };
    w.expect({of("loop.toml"), 2, {"loop.toml: " + loop}});
    w.expect({of(long_name + ".toml"), 2, {".toml: " + too_long}});
  }
  w.expect({{"plan", long_name}, 4, {too_long}});
  for (const char* command : {"inspect", "check"}) {
    w.expect({{"plugin", command, "loop.lamina.so"}, 8, {"loop.lamina.so: " + loop}});
    w.expect({{"plugin", command, long_name}, 8, {"no plugin has family 'aaa"}});
  }
}

TEST(InputErrors, ADirectoryThatCannotBeAccessedHasANextStep) {
  Workplace w;
  fs::create_symlink("loop", w.path("loop"));
  w.expect({{"decode", "-m", "loop", "-p", "x"},
            4,
            {"cannot be accessed: too many levels of symbolic links",
             "check the path and its permissions"}});
}

TEST(TokenizerFaults, AShortListIsNamedByEachCommand) {
  Workplace w;
  copy_model(w, "gpt2_prefixed", "m");
  w.write("m/tokenizer.json", kSmallTokenizer);
  replace(w, "m/tokenizer.json", "\"post_processor\":null",
          R"("post_processor":{"type":"BertProcessing","sep":[],"cls":["<s>",0]})");
  const std::string says = "m/tokenizer.json:2: 'post_processor.sep' must be a token and its id";
  w.expect({{"decode", "-m", "m", "-p", "a"}, 4, {says}});
  w.expect({{"train", "run.toml", "--set", "data.tokenizer=m"}, 5, {says}});
}

TEST(GoldenFaults, AnEmptyCaseIsRefused) {
  Workplace w;
  copy_model(w, "gpt2_prefixed", "m");
  w.write("m/golden.json", "{}");
  const std::vector<std::int32_t> good = {1, 2, 3}, bad = {1, 163, -1};
  const auto write = [&](const std::string& name, const std::vector<std::int32_t>& ids,
                         const Shape& shape) {
    io::write_safetensors(w.path("m/golden.safetensors").string(), {{name, DType::i32, shape}}, {},
                          [&](const io::TensorSpec&) { return std::as_bytes(std::span(ids)); });
  };
  write("input_ids", good, {1, 3});
  w.expect({{"verify", "m"}, 4, {"m/golden.safetensors: contains nothing to compare"}});
  write("input_ids", bad, {1, 3});
  w.expect({{"verify", "m"},
            4,
            {"tensor 'input_ids' has the id 163 at element 1; ids of this vocabulary are 0 to "
             "162"}});
  write("input_ids", good, {3});
  w.expect(
      {{"verify", "m"}, 4, {"tensor 'input_ids' is [3]; expected 2 dims, none of them empty"}});
}

TEST(GoldenFaults, ALossWithoutLabelsIsRefused) {
  Workplace w;
  copy_model(w, "gpt2_prefixed", "m");
  w.write("m/golden.json", "{}");
  const std::vector<std::int32_t> ids = {1, 2, 3};
  const float loss = 5;
  const auto write = [&](const std::string& prefix) {
    io::write_safetensors(
        w.path("m/golden.safetensors").string(),
        {{prefix + "input_ids", DType::i32, {1, 3}}, {prefix + "loss", DType::f32, {}}}, {},
        [&](const io::TensorSpec& spec) {
          return spec.dtype == DType::f32 ? std::as_bytes(std::span(&loss, 1))
                                          : std::as_bytes(std::span(ids));
        });
  };
  write("");
  w.expect({{"verify", "m"},
            4,
            {"m/golden.safetensors: has 'loss' but no 'labels', the tokens that the loss counts\n"
             "  add 'labels', i32[1, 3]; docs/verify.md describes cases"}});
  write("packed.");
  w.expect({{"verify", "m"}, 4, {"has 'packed.loss' but no 'packed.labels'"}});
}

TEST(UnreadableData, AFifoInPlaceOfAFileIsRefused) {
  Workplace w;
  ASSERT_EQ(::mkfifo(w.path("fifo").c_str(), 0600), 0);
  copy_model(w, "gpt2_prefixed", "m");
  w.write("m/tokenizer.json", kSmallTokenizer);
  w.train();
  w.write("by_file.toml", "model = \"fifo\"\n[data]\ntrain = [\"text.txt\"]\n");
  const std::string says = "fifo: is a FIFO; expected a file";
  const Mistake mistakes[] = {
      {{"config", "show", "fifo"}, 2, {says}},
      {{"train", "fifo"}, 2, {says}},
      {{"train", "run.toml", "--out", "other", "--set", "data.train=fifo"},
       5,
       {"fifo: is a FIFO; expected text"}},
      {{"train", "by_file.toml"}, 2, {says}},
      {{"decode", "-m", "fifo", "-p", "x"}, 4, {"fifo: is not a directory"}},
      {{"decode", "-m", "out", "-f", "fifo"}, 5, {says}},
      {{"eval", "-m", "out", "-d", "fifo"}, 5, {"fifo: is a FIFO; expected text"}},
      {{"decode", "-m", "m", "--ids", "1", "--placeholder", "1", "--embeddings", "fifo"},
       4,
       {says}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    const std::string path = std::string("m/") + name;
    fs::rename(w.path(path), w.path("kept"));
    fs::rename(w.path("fifo"), w.path(path));
    w.expect({{"decode", "-m", "m", "-p", "x"}, 4, {path + ": is a FIFO; expected a file"}});
    fs::rename(w.path(path), w.path("fifo"));
    fs::rename(w.path("kept"), w.path(path));
  }
}

TEST(GoldenFaults, OptimizerValuesOfARecipeAreChecked) {
  Workplace w;
  copy_model(w, "train_llama3", "m");
  replace(w, "m/golden.json", "\"beta1\": 0.", "\"beta1\": 1.");
  w.expect(
      {{"verify", "m"}, 4, {"m/golden.json:", "'recipe.beta1' must be at least 0 and below 1"}});
}

TEST(InputErrors, AnEndTokenBeyondInt32IsRefused) {
  Workplace w;
  copy_model(w, "gpt2_prefixed", "m");
  w.write("m/generation_config.json", R"({"eos_token_id": 4294967465})");
  w.expect(
      {{"decode", "-m", "m", "--ids", "1", "-n", "2"},
       4,
       {"m/generation_config.json:1: 'eos_token_id' must be a token id from 0 to 2147483647"}});
}

TEST(InputErrors, TwoPromptsAreRefused) {
  Workplace w;
  const std::string model = golden_model("gpt2_prefixed");
  const Mistake mistakes[] = {
      {{"decode", "-m", model, "-p", "a", "-f", "nosuch", "--ids", "1"},
       2,
       {"prompt: -p and -f and --ids cannot be combined: each sets the prompt",
        "keep one of them"}},
      {{"decode", "-m", model, "-f", "run.toml", "--ids", "1"},
       2,
       {"-f and --ids cannot be combined"}},
      {{"decode", "-m", model, "--ids", ""}, 2, {"--ids: got ''"}},
      {{"decode", "-m", model, "--ids", "1,"}, 2, {"--ids: got '1,'"}},
      {{"decode", "-m", model, "-p", "a", "--stop", ""}, 2, {"--stop: got ''"}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
}

TEST(InputErrors, StdinIsReadToTheSameLimitAsAFile) {
  Workplace w;
  w.train();
  const std::string decode =
      std::string(kLamina) + " decode -m " + w.path("out").string() + " -n 1 -f - ";
  Finished f = run_shell(decode + "< /dev/zero");
  EXPECT_EQ(f.code, 5);
  EXPECT_THAT(f.err,
              HasSubstr("error: stdin: has 67108865 bytes or more; the maximum is 67108864"));
  f = run_shell(decode + "< /");
  EXPECT_EQ(f.code, 5);
  EXPECT_THAT(f.err, HasSubstr("error: stdin: is a directory; expected text to read"));
  f = run_shell(decode + "<&-");
  EXPECT_EQ(f.code, 5);
  EXPECT_THAT(f.err, HasSubstr("error: stdin: is closed; expected text to read"));
  f = run_shell("printf a | " + decode);
  EXPECT_EQ(f.code, 0) << f.err;
}

TEST(InputErrors, LinesOfAStdinThatCannotBeReadAreRefused) {
  Workplace w;
  w.train();
  w.write("t.jinja", "{{ messages[0].content }}");
  const std::string out = w.path("out").string();
  for (const std::string& command :
       {" chat -n 1 -m " + out + " --chat-template " + w.path("t.jinja").string(),
        " tokenize -m " + out + " --jsonl -"}) {
    Finished f = run_shell(kLamina + command + " <&-");
    EXPECT_EQ(f.code, 5) << command;
    EXPECT_THAT(f.err, HasSubstr("error: stdin: is closed; expected text to read"));
    f = run_shell(kLamina + command + " < /");
    EXPECT_EQ(f.code, 5) << command;
    EXPECT_THAT(f.err, HasSubstr("error: stdin: is a directory; expected text to read"));
    f = run_shell(kLamina + command + " < /dev/null");
    EXPECT_EQ(f.code, 0) << command << f.err;
  }
}

TEST(InputErrors, StdinIsReadWhereTheHelpSaysSo) {
  Workplace w;
  w.train();
  w.write("t.jinja", "{{ messages[0].content }}");
  const std::string says = "-: stdin is not read here";
  const Mistake mistakes[] = {
      {{"config", "show", "-"}, 2, {says}},
      {{"decode", "-m", "out", "--chat", "-p", "x", "--chat-template", "-"}, 5, {says}},
      {{"decode", "-m", "out", "--chat", "-p", "x", "--chat-template", "t.jinja", "--tools", "-"},
       5,
       {says}},
      {{"eval", "-m", "out", "-d", "-"}, 5, {"-: stdin cannot be read here"}},
      {{"bench", "text", "-m", "out", "-f", "-"}, 5, {says}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
}

TEST(InputErrors, TerminalControlsAreEscaped) {
  Workplace w;
  const std::string evil = "a\x1b[31m\xc2\x9b\n.txt", worse = "\x9b" + evil;
  const std::string shown = "a\\x1b[31m\\xc2\\x9b\\x0a.txt";
  w.expect({{"decode", "-m", evil, "-p", "x"}, 4, {shown + ": no such file"}});
  w.expect({{"config", "show", evil}, 2, {shown + ": cannot be read"}});
  w.expect({{"config", "show", worse}, 2, {"\\x9b" + shown}});
  w.write("books/" + worse, "text\xff");
  w.expect({{"train", "run.toml", "--set", "data.train=books"},
            5,
            {"books/\\x9b" + shown + ":1: is not"}});
  w.write("books/" + worse, std::string(2000, 'x'));
  Finished f = w.lamina({"train", "run.toml", "--set", "data.train=books/*", "--out", "o\x1b[31m"});
  EXPECT_EQ(f.code, 0) << f.err;
  f.err += w.lamina({"ckpt", "ls", "o\x1b[31m"}).out;
  EXPECT_THAT(f.err, HasSubstr("o\\x1b[31m/checkpoints"));
  EXPECT_THAT(f.err, Not(HasSubstr("\x1b")));
  const Finished json = w.lamina({"ckpt", "ls", "o\x1b[31m", "--json"});
  EXPECT_THAT(json.out, HasSubstr("o\\u001b[31m/checkpoints"));
}

TEST(InputErrors, DamageHasTheCodeOfTheDamagedFile) {
  Workplace w;
  w.train();
  w.write("file.txt", "text");
  const Mistake mistakes[] = {
      {{"decode", "-m", "file.txt", "-p", "x"},
       4,
       {"file.txt: is a file; expected a Hugging Face"}},
      {{"eval", "-m", "file.txt", "-d", "text.txt"},
       4,
       {"file.txt: is a file; expected a Hugging Face"}},
      {{"train", "run.toml", "--set", "data.tokenizer=nowhere"},
       5,
       {"nowhere: no such directory; expected a model directory with its tokenizer"}},
  };
  for (const Mistake& m : mistakes) w.expect(m);
  w.write("out/config.toml", "");
  w.expect({{"eval", "out"}, 4, {"out/config.toml", "training wrote this file"}});
  for (const auto& checkpoint : fs::directory_iterator(w.path("out/checkpoints")))
    fs::resize_file(checkpoint.path() / "model.toml", 30);
  w.expect({{"decode", "-m", "out", "-p", "x"}, 4, {"model.toml: has 30 bytes"}});
}

TEST(InputErrors, IncompleteCheckpointsAreReported) {
  Workplace w;
  w.write("run/checkpoints/step-5/model.safetensors", "");
  w.expect({{"decode", "-m", "run", "-p", "x"},
            4,
            {"run: has checkpoints, but none is complete", "`lamina ckpt verify` says what"}});
  fs::create_directories(w.path("empty/checkpoints"));
  w.expect(
      {{"decode", "-m", "empty", "-p", "x"},
       4,
       {"empty/checkpoints: contains no complete checkpoint, and next to it is neither config.json "
        "nor model.toml",
        "it is empty"}});
}

}  // namespace
}  // namespace lamina::testing
