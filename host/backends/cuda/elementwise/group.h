// Maps of several tensors in one launch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/cuda/elementwise/encode.h"
#include "backends/cuda/launch.h"

namespace lamina::cuda {

// The properties that all maps of a launch have in common.
struct MapForm {
  bool wide = false;
  int num_slots = 0, ndim = 0;
  std::vector<GpuMapStep> steps;
  std::vector<MapGroupOperand> operands;
  friend bool operator==(const MapForm&, const MapForm&) = default;

  // Number of tensors for which the parameters of a launch have room.
  int most_tensors() const;
};

// Returns nothing if the map is always alone: it counts elements, has an operand that neither is
// contiguous nor repeats whole dims, has more than 2^30 elements, or two of it do not fit.
std::optional<MapForm> form_of(const EncodedMap& map);

// One launch of maps of a form.
class MapGroupLaunch {
 public:
  explicit MapGroupLaunch(const MapForm& form);

  // Adds a tensor without addresses. REQUIRES: it has the form, and there is room.
  void add(const EncodedMap& map, std::int64_t elements_per_chunk);
  void set_address(int tensor, std::size_t operand, gpu::Address at);
  int num_tensors() const { return params_.num_tensors; }
  void run(const KernelArgs& args, Function function, LaunchShape shape);

 private:
  std::uint64_t* words_of(int tensor);

  MapGroupParams params_ = {};
};

}  // namespace lamina::cuda
