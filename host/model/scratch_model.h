// A temporary model in lamina's own form, in a directory that is removed with the object.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "decoder/model.h"
#include "io/directory_commit.h"

namespace lamina::model {

class ScratchModel {
 public:
  // Creates an empty directory beside `target`, the model that it is needed for. Removes one that a
  // killed process left there (io/directory_commit.h).
  explicit ScratchModel(const std::string& target) : directory_(target) {}

  const std::string& directory() const { return directory_.path(); }

  // Writes the parameters of `model` in f32, as returned by `values` (borrowed until the next
  // call), and the side files of the directory `from`. DeviceError, exit 4.
  using Values = std::function<std::span<const float>(const decoder::Parameter&)>;
  void write(const decoder::Model& model, const Values& values, const std::string& from) const;

 private:
  io::DirectoryCommit directory_;  // never committed
};

}  // namespace lamina::model
