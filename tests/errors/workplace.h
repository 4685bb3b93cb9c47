// A folder for user mistakes, and the expected message for each.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/goldens.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina::testing {

// The words of a command line and the expected result.
struct Mistake {
  std::vector<std::string> words;
  int code;
  std::vector<std::string> says;  // parts of stderr: the place, the value, the expected value
};

// Contains text.txt and run.toml, a run of four steps of a very small model.
class Workplace {
 public:
  Workplace() {
    std::string text;
    for (int i = 0; i < 80; ++i)
      text += "In the beginning of line " + std::to_string(i * i) + " was the word.\n";
    write("text.txt", text);
    write("run.toml", R"(family = "llama2"
[model]
vocab_size = 258
hidden_size = 16
intermediate_size = 24
num_hidden_layers = 2
num_attention_heads = 2
max_position_embeddings = 64
[data]
train = ["text.txt"]
sequence_length = 24
[train]
steps = 4
batch_size = 4
[checkpoint]
every_steps = 2
[run]
out = "out"
)");
  }

  Finished lamina(std::vector<std::string> words) const {
    words.insert(words.begin(), LAMINA_BUILD_DIR "/bin/lamina");
    return run_process(words, {.environment = {"LAMINA_PIN=0"}, .folder = folder_.path()});
  }
  // Trains run.toml to its end.
  void train() const {
    Finished f = lamina({"train", "run.toml", "--quiet"});
    ASSERT_EQ(f.code, 0) << f.err;
  }
  // Expects the message at the end of stderr, and nothing on stdout.
  void expect(const Mistake& mistake) const {
    Finished f = lamina(mistake.words);
    std::string line;
    for (const std::string& word : mistake.words) line.append(1, ' ').append(word, 0, 80);
    EXPECT_EQ(f.code, mistake.code) << "lamina" << line << "\n" << f.err;
    EXPECT_EQ(f.out, "") << "lamina" << line;
    std::size_t message = f.err.rfind("error: ");
    EXPECT_NE(message, f.err.npos) << "lamina" << line << "\n" << f.err;
    for (const std::string& part : mistake.says)
      EXPECT_THAT(f.err.substr(std::min(message, f.err.size())), ::testing::HasSubstr(part))
          << "lamina" << line;
  }

  std::string write(const std::string& name, const std::string& bytes) const {
    return folder_.write(name, bytes);
  }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
  const TempDir& folder() const { return folder_; }
  std::string read(const std::string& name) const { return folder_.read(name); }

 private:
  TempDir folder_;
};

// A published model of the tests: from $LAMINA_GOLDENS, or from this tree if it is missing there.
inline std::string golden_model(const std::string& name) {
  const std::filesystem::path found = golden_dir() / "hf" / name;
  if (std::filesystem::exists(found)) return found;
  return std::filesystem::path(LAMINA_SOURCE_DIR) / "tests" / "golden" / "hf" / name;
}

}  // namespace lamina::testing
