// A case of MaxText as a model of ours: its configuration, rows of tokens and weights.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inspect/verify/case.h"
#include "io/weight_files.h"
#include "support/maxtext_config.h"
#include "support/maxtext_names.h"
#include "support/models.h"

namespace lamina::testing {

class MaxTextModel {
 public:
  // disturbed: with weights that differ by a relative 1e-7, up or down. Rows are called
  // `rows_prefix`inputs and so on.
  MaxTextModel(const std::filesystem::path& directory, bool scan_layers, bool disturbed,
               const std::string& rows_prefix = "");

 protected:
  Rows read_rows(const std::string& prefix) const;
  // Reads a parameter's values from the case's tensors `prefix`NAME.
  std::vector<float> read_values(const std::string& prefix, std::size_t parameter) const;
  // Returns the model with another weight of the routers' balance loss.
  decoder::Model with_balance_weight(double weight) const;

  std::int64_t microbatches() const {
    return config_.run.train.batch_size / config_.run.train.microbatch_size;
  }

  std::filesystem::path directory_;
  bool scan_layers_;
  inspect::GoldenCase case_;
  io::WeightFiles files_;
  MaxTextConfig config_;
  decoder::Model model_;
  Rows rows_;
  std::vector<std::vector<MaxTextTensor>> names_;  // one per parameter
  std::vector<std::vector<float>> parameters_;

 private:
  void read_weights(bool disturbed);
};

}  // namespace lamina::testing
