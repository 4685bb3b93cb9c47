// Code shared by the tests of [distillation]: packed documents, and runs of small models that learn
// from a teacher.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "core/read_file.h"
#include "support/models.h"
#include "support/run_of_file.h"
#include "support/temp_dir.h"

namespace lamina::testing {

inline constexpr std::int64_t kTokens = 24;

// Two documents with some ignored labels, each alone and both in one row with padding.
struct Documents {
  decoder::Model model;
  std::vector<Rows> alone;
  Rows rows;

  explicit Documents(const TestModel& of, bool scan_layers = true)
      : model(open_model(of.path, scan_layers)) {
    for (const std::int64_t tokens : {9, 12}) {
      alone.push_back(random_rows(model, 1, tokens, static_cast<unsigned>(tokens)));
      std::fill_n(alone.back().labels.begin(), 3, -100);  // a prompt
    }
    rows = pack(alone, kTokens);
  }
};

inline std::string sentences() {
  std::string out;
  for (int i = 0; i < 200; ++i) out += "line " + std::to_string(i % 7) + " of a text\n";
  return out;
}

inline constexpr const char* kSmall =
    "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\nintermediate_size = 24\n"
    "num_hidden_layers = 2\nnum_attention_heads = 2\n";
// A model of another family.
inline constexpr const char* kTeacher =
    "family = \"gpt3\"\n[model]\nvocab_size = 258\nhidden_size = 24\nnum_hidden_layers = 2\n"
    "num_attention_heads = 2\nmax_position_embeddings = 64\n";

inline std::string write_run(const TempDir& folder, const std::string& name,
                             const std::string& model, const std::string& more = "") {
  folder.write("text.txt", sentences());
  return folder.write(name + ".toml",
                      model +
                          "[data]\ntrain = [\"text.txt\"]\nvalidation_fraction = 0.1\n"
                          "sequence_length = 32\ndocument_separator = \"line\"\n"
                          "[train]\nsteps = 6\nbatch_size = 4\n"
                          "[optimizer]\nlr = 5e-3\n[checkpoint]\nevery_steps = 2\nkeep = 100\n"
                          "[schedule]\nkind = \"constant\"\n[run]\nseed = 5\nout = \"" +
                          name + "\"\n" + more);
}

// A trained teacher, and a run that learns from it.
inline std::string write_student(const TempDir& folder, const std::string& more = "",
                                 const std::string& teacher = kTeacher) {
  if (!std::filesystem::exists(folder / "teacher"))
    RunOfFile(write_run(folder, "teacher", teacher), {"train.steps=30"}).train();
  return write_run(folder, "student", kSmall,
                   "[distillation]\nteacher = \"teacher\"\ndtype = \"float32\"\n" + more);
}

inline void expect_same_checkpoints(const std::string& a, const std::string& b) {
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    const std::string path = "/checkpoints/step-00000006/" + std::string(name);
    const std::string bytes = read_file(a + path, ExitCode::data);
    EXPECT_FALSE(bytes.empty());
    EXPECT_TRUE(bytes == read_file(b + path, ExitCode::data)) << name;
  }
}

// Expects a whole run and a resumed run of write_student() to give the same bits.
inline void expect_goes_on_to_the_same_bits(const TempDir& folder, const std::string& file) {
  RunOfFile(file, {"run.out=" + folder / "whole"}).train();
  RunOfFile(file).train(3);
  RunOfFile(file).train();
  expect_same_checkpoints(folder / "whole", folder / "student");
}

}  // namespace lamina::testing
