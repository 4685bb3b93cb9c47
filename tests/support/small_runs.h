// Training runs of a small model, one for each of several parts of the trainer, on any backend.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "io/weight_files.h"
#include "support/published_model.h"
#include "support/run_of_file.h"
#include "support/temp_dir.h"

namespace lamina::testing {

struct SmallRun {
  friend std::ostream& operator<<(std::ostream& out, const SmallRun& c) { return out << c.name; }
  const char* name;
  std::string model;  // of the run file, up to [data]
  std::string data;
  std::vector<std::string> sets;
};

inline const std::string kSmallLlama =
    "family = \"llama2\"\n[model]\nvocab_size = 258\nhidden_size = 16\n"
    "intermediate_size = 24\nnum_hidden_layers = 2\nnum_attention_heads = 2\n";
inline const std::string kSmallText = "train = [\"text.txt\"]\nsequence_length = 24\n";

inline const std::vector<SmallRun> kSmallRuns = {
    {"Plain", kSmallLlama, kSmallText, {"train.dtype=float32"}},
    {"Microbatches", kSmallLlama, kSmallText, {"train.dtype=bfloat16", "train.microbatch_size=1"}},
    {"AsyncCheckpointsAndAverage",
     kSmallLlama,
     kSmallText,
     {"train.dtype=bfloat16", "checkpoint.async=true", "train.ema=0.75", "train.eval_weights=ema"}},
    {"Muon", kSmallLlama, kSmallText, {"train.dtype=float32", "optimizer.name=muon"}},
    {"SmallMoments", kSmallLlama, kSmallText, {"train.dtype=float32", "optimizer.moments=8bit"}},
    {"UpdatesInBackward",
     kSmallLlama,
     kSmallText,
     {"train.dtype=float32", "optimizer.in_backward=true", "train.clip_norm=0"}},
    {"Adapter", "", kSmallText, {"train.from=model", "lora.rank=4", "lora.use_dora=true"}},
    {"Distillation",
     "",
     kSmallText,
     {"train.from=model", "train.dtype=float32", "distillation.teacher=model",
      "distillation.alpha=0.5", "distillation.top_k=8"}},
    {"Preferences",
     kSmallLlama,
     "train = [\"pairs.jsonl\"]\nform = \"preference\"\nsequence_length = 64\n",
     {"train.dtype=float32", "preference.loss=dpo"}},
};

inline std::string pairs_text() {
  std::string out;
  for (int i = 0; i < 24; ++i)
    out += fmt::format(R"({{"prompt": "say {0}: ", "chosen": "yes{0}", "rejected": "no"}})"
                       "\n",
                       i);
  return out;
}

// Trains in two runs, the second one from the checkpoint of the first.
struct Trained {
  std::vector<double> losses;
  std::map<std::string, std::vector<std::byte>>
      tensors;  // of the last checkpoint, by file and name
};

inline Trained train_on(const Backend& backend, const SmallRun& c) {
  TempDir folder;
  if (c.model.empty()) add_golden_model(folder, "llama3_gqa");
  folder.write("text.txt", text_of_words(40));
  folder.write("pairs.jsonl", pairs_text());
  const std::string file =
      folder.write("run.toml", c.model + "[data]\n" + c.data + "validation_fraction = 0.2\n" +
                                   "[train]\nsteps = 4\nbatch_size = 2\neval_every_steps = 2\n" +
                                   "[optimizer]\nlr = 5e-3\n[checkpoint]\nevery_steps = 2\n" +
                                   "[run]\nout = \"out\"\nseed = 5\n");
  std::vector<std::string> sets = c.sets;
  for (std::string& set : sets)  // relative paths would start at the current folder
    if (set.ends_with("=model")) set.replace(set.size() - 5, 5, folder / "model");
  Trained out;
  out.losses.push_back(RunOfFile(file, sets, backend).train(2).last_loss);
  RunOfFile second(file, sets, backend);
  const train::LoopResult result = second.train();
  out.losses.push_back(result.last_loss);
  out.losses.push_back(result.validation_loss.value_or(0));
  for (const char* stem : {"model", "optimizer"}) {
    const io::WeightFiles files(second.checkpoint(), stem);
    for (const std::string_view name : files.names()) {
      const auto bytes = files.tensor(name).bytes;
      out.tensors[fmt::format("{}/{}", stem, name)] = {bytes.begin(), bytes.end()};
    }
  }
  return out;
}

}  // namespace lamina::testing
