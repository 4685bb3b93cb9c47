// Code shared by the tests of [lora]: runs of a copied model with an adapter, and their results.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "backends/cpu/backend.h"
#include "model/load.h"
#include "model/merge.h"
#include "support/models.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/temp_dir.h"

namespace lamina::testing {

inline constexpr std::int64_t kRank = 4;

// A run of six steps of a copied model with an adapter, changed by `sets`.
struct LoraRun : RunOfFile {
  explicit LoraRun(const TempDir& folder, const std::vector<std::string>& sets = {},
                   const std::string& golden = "llama3_gqa")
      : RunOfFile(write_file(folder, golden), sets) {}

  static std::string write_file(const TempDir& folder, const std::string& golden) {
    if (!std::filesystem::exists(folder / "model")) add_golden_model(folder, golden);
    folder.write("text.txt", text_of_words(40));
    return folder.write("run.toml",
                        "[data]\ntrain = [\"text.txt\"]\nsequence_length = 12\n[train]\n"
                        "from = \"model\"\nsteps = 6\nbatch_size = 2\n[lora]\nrank = 4\nalpha = 8\n"
                        "target_modules = [\"q_proj\", \"attention.wv\", \"down_proj\"]\n"
                        "[optimizer]\nlr = 1e-2\n[checkpoint]\nevery_steps = 2\nkeep = 100\n"
                        "[run]\nout = \"out\"\nseed = 5\n");
  }
};

inline model::Loaded load_f32(const std::string& path, const std::string& adapter = "") {
  return model::load(path, built_plugins(), DType::f32, cpu::cpu_backend(), {.adapter = adapter});
}
inline std::vector<float> logits_of(const model::Loaded& m) {
  return forward(m.model(), m.weights.pointers(), random_rows(m.model(), 2, 7));
}
// The adapter alone, as PEFT would save it.
inline std::string copy_adapter(const TempDir& folder, const std::string& checkpoint) {
  namespace fs = std::filesystem;
  fs::create_directories(folder / "adapter");
  for (const char* name : {"adapter_config.json", "adapter_model.safetensors"})
    fs::copy_file(fs::path(checkpoint) / name, fs::path(folder / "adapter") / name,
                  fs::copy_options::overwrite_existing);
  return folder / "adapter";
}
// The adapter merged with its model into `to`, in f32.
inline model::Loaded merged_into(const std::string& to, const std::string& checkpoint) {
  model::merge_to_hf(checkpoint, {}, to, DType::f32, built_plugins(), cpu::cpu_backend());
  return load_f32(to);
}

}  // namespace lamina::testing
