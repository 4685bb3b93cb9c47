// A model in lamina's own form that is needed for a moment, in a directory that is removed with it.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "decoder/model.h"

namespace lamina::model {

class ScratchModel {
 public:
  // Makes the directory, empty.
  explicit ScratchModel(std::string directory);
  ScratchModel(const ScratchModel&) = delete;
  ScratchModel& operator=(const ScratchModel&) = delete;
  ~ScratchModel();

  const std::string& directory() const { return directory_; }

  // Writes the parameters of `model` in f32, as `values` gives them (borrowed until the next call),
  // and the side files of the directory `from`. DeviceError, exit 4.
  using Values = std::function<std::span<const float>(const decoder::Parameter&)>;
  void write(const decoder::Model& model, const Values& values, const std::string& from) const;

 private:
  std::string directory_;
};

}  // namespace lamina::model
