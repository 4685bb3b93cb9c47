// A run directory of a tiny model, trained once for all tests of a program.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/paths.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace lamina::cli {

inline lamina::testing::Finished lamina_program(std::vector<std::string> words) {
  words.insert(words.begin(), LAMINA_BUILD_DIR "/bin/lamina");
  return lamina::testing::run_process(words);
}

inline lamina::testing::Finished ckpt(std::vector<std::string> words) {
  words.insert(words.begin(), "ckpt");
  return lamina_program(words);
}

// Model and run: two layers, byte tokenizer, a text of this project with a tenth of it held out.
inline std::string tiny_run_file(const std::string& out) {
  return "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 32\n"
         "intermediate_size = 48\nnum_hidden_layers = 2\nnum_attention_heads = 2\n"
         "max_position_embeddings = 64\n[run]\nout = \"" +
         out +
         "\"\n[data]\ntrain = \"" LAMINA_SOURCE_DIR
         "/docs/glossary.md\"\nvalidation_fraction = 0.1\nsequence_length = 32\n"
         "[train]\nsteps = 4\nbatch_size = 2\nmicrobatch_size = 1\ndtype = "
         "\"float32\"\n"
         "[checkpoint]\nevery_steps = 2\n";
}

// Trains this run in folder/out, with `more` on the command line.
inline lamina::testing::Finished train_tiny(const lamina::testing::TempDir& folder,
                                            const std::string& out,
                                            const std::vector<std::string>& more) {
  std::vector<std::string> words = {"train",
                                    folder.write(out + ".toml", tiny_run_file(folder / out))};
  words.insert(words.end(), more.begin(), more.end());
  return lamina_program(words);
}

// Moves the keys of a Llama's config.json one level down, like a multimodal model's.
inline void nest_config(const lamina::testing::TempDir& folder, const std::string& model) {
  const std::string file = model + "/config.json";
  folder.write(file, R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",)"
                     R"( "text_config": )" +
                         folder.read(file) + "}");
}

// Compares the last checkpoints of two such runs: weights and optimizer state.
inline void expect_equal_tensors(const lamina::testing::TempDir& folder, const std::string& a,
                                 const std::string& b) {
  const std::string step = "/checkpoints/step-00000004/";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / (a + step))) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = step + entry.path().filename().string();
    EXPECT_EQ(folder.read(a + name), folder.read(b + name)) << name;
    ++files;
  }
  EXPECT_GT(files, 0);
}

// Two checkpoints, at steps 2 and 4. Tests must not write to it.
inline const std::string& trained_run() {
  static const lamina::testing::TempDir folder;
  static const std::string out = [] {
    std::string run = folder.write("run.toml", tiny_run_file(folder / "out"));
    lamina::testing::Finished result = lamina_program({"train", run, "--quiet"});
    EXPECT_EQ(result.code, 0) << result.err;
    return folder / "out";
  }();
  return out;
}

}  // namespace lamina::cli
