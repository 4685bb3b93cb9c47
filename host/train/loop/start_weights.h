// The weights that a run starts from: train.from, and fresh ones that train.fresh names.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/sections.h"
#include "decoder/model.h"
#include "io/weight_files.h"
#include "weights/match/tensor_map.h"
#include "weights/quantise/rules.h"

namespace lamina::train {

class StartWeights {
 public:
  // `source` is the model as `directory` (or the GGUF file) describes it, of the family of `model`;
  // `files` are its weights. An adapter that only `model` has starts fresh.
  // REQUIRES: both outlive this. Throws UserError: exit 4 if the directory lacks a tensor that
  // `fresh` does not name, has one of another shape, or one that `model` does not use, with lists;
  // exit 2 for a pattern that names no tensor which the directory lacks.
  StartWeights(const decoder::Model& model, const decoder::Model& source,
               std::shared_ptr<const io::WeightFiles> files, const std::string& directory,
               const std::vector<std::string>& fresh, const config::KeyPlace& place);

  // True if the directory has at least a part of the parameter; else it starts fresh.
  bool has(int parameter) const { return origin_[static_cast<std::size_t>(parameter)] >= 0; }
  // Reads its values. New rows are the mean of the old ones; new rows of integers start
  // as in a fresh model. REQUIRES: has(parameter).
  void read(int parameter, std::span<float> out) const;
  // True if the directory has all of it, as elements of `dtype`, which read_as() reads.
  bool has_as(int parameter, DType dtype) const;
  void read_as(int parameter, DType dtype, std::byte* out) const;
  // Returns the format of its blocks in the directory, which read_blocks() reads; null if it is not
  // wholly there in blocks of one format along its last dim.
  const formats::BlockFormat* block_format(int parameter) const;
  void read_blocks(int parameter, std::byte* out) const;
  // Rounds it to `format`. REQUIRES: is_whole(parameter).
  void read_rounded(int parameter, const formats::BlockFormat& format, std::byte* out) const;
  // True if the directory has all of it.
  bool is_whole(int parameter) const {
    return has(parameter) && !grows_[static_cast<std::size_t>(parameter)];
  }
  // UserError (exit 2) if some of them are compressed in the directory. REQUIRES: has() of each.
  void check_are_plain(std::vector<int> parameters, const weights::Quantisation& what) const;

  const io::WeightFiles& files() const { return *files_; }
  const weights::TensorMap& map() const { return map_; }
  // Parameters that start fresh as a whole; parameters that get new rows.
  const std::vector<std::string>& fresh() const { return fresh_; }
  const std::vector<std::string>& grown() const { return grown_; }

 private:
  const decoder::Model& source_;
  std::shared_ptr<const io::WeightFiles> files_;
  weights::TensorMap map_;   // of source_
  std::vector<int> origin_;  // by parameter: its index in source_, or -1
  std::vector<bool> grows_;  // by parameter: more rows than in source_
  std::vector<std::string> fresh_, grown_;
};

}  // namespace lamina::train
