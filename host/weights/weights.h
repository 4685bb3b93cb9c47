// The memory of a model's parameters during a run: mapped files, or copies.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/workers.h"
#include "decoder/model.h"
#include "io/weight_files.h"
#include "runtime/buffer_parts.h"
#include "weights/initialise.h"
#include "weights/match/tensor_map.h"

namespace lamina {
class Upload;
}

namespace lamina::weights {

// The files of a checkpoint with the moving average of the trained weights.
inline constexpr std::string_view kAverageStem = "ema";

// Writes values as elements first, first + 1, .. of the tensor at `out`.
// REQUIRES: dtype is f32, bf16, f16, f64, i32 or i64.
void store(std::span<const float> values, DType dtype, std::int64_t first, std::byte* out);

// Reads a parameter in f32: the values of the files, or its initial values if it is missing there
// (an optional tensor). REQUIRES: `map` is match_weights(model, files).
void read_values(const decoder::Model& model, const TensorMap& map, const io::WeightFiles& files,
                 int parameter, std::span<float> out);

// Returns whether the files contain the values of a parameter as elements of `dtype`, in any order.
// REQUIRES: `map` is match_weights(.., files).
bool is_stored_as(const TensorMap& map, const io::WeightFiles& files, int parameter, DType dtype);
// Reads a parameter with pieces as elements of `dtype` (one that store() accepts), row-major;
// converts with `workers`.
void read_as(const TensorMap& map, const io::WeightFiles& files, int parameter, DType dtype,
             std::byte* out, const Workers& workers = {});

// Memory of all parameters: views into mapped files where the bytes can be used unchanged, else
// copies.
class Weights {
 public:
  // Reads every parameter in the type Parameter::used_type(compute), with `workers`. Files stay
  // mapped. A parameter whose storage is not the format of the files is rounded to it
  // (quantise/quantise.h). `between` is called before parameters or parts of them are read, by any
  // thread, and may throw to end the reading.
  //
  // On a device with separate memory, load() returns while an Upload reads the files, in the order
  // of the parameters, with its own threads. Programs wait for the parameters that they use, and
  // throw errors of reading.
  static Weights load(const decoder::Model& model, std::shared_ptr<const io::WeightFiles> files,
                      DType compute, const Backend& backend, const Workers& workers = {},
                      const std::function<void()>& between = {});
  // Initialises all parameters as declared. The values of a parameter depend only on its
  // declaration, its name and the seed.
  static Weights initialise(const decoder::Model& model, std::uint64_t seed, DType compute,
                            const Backend& backend);

  // One tensor per parameter, to bind to programs.
  std::span<const ConstTensorRef> pointers() const { return tensors_; }
  // One to be written. REQUIRES: not is_mapped(parameter).
  TensorRef own_tensor(int parameter) const;
  bool is_mapped(int parameter) const {
    return in_place_[static_cast<std::size_t>(parameter)].data() != nullptr;
  }

  // Returns when the files have been read. Throws errors of reading.
  void wait_until_read() const;

  // Uses idle time: maps pages of the files before their first use, in the order of the parameters,
  // while `keep_going` returns true. Affects only the time of the first use.
  void map_pages(const std::function<bool()>& keep_going) const;

 private:
  // The memory of parameters that are not in mapped files, and their upload, which ends first.
  struct Owned {
    BufferParts parts;
    std::shared_ptr<Upload> upload;  // null where the host writes the memory
  };

  std::shared_ptr<const io::WeightFiles> files_;
  std::unique_ptr<Owned> owned_ = std::make_unique<Owned>();
  std::vector<ConstTensorRef> tensors_;
  std::vector<TensorRef> own_tensors_;                // none where in a file
  std::vector<std::span<const std::byte>> in_place_;  // in the files; null for own copies
};

// f32 values of a model's weights on the host: their memory where the host may read it, else copies
// that are made when they are first asked for. Borrows both. [one thread]
class WeightValues {
 public:
  WeightValues(const Weights& weights, Queue& queue) : weights_(weights), queue_(queue) {}
  std::span<const float> operator()(int parameter);

 private:
  const Weights& weights_;
  Queue& queue_;
  std::map<int, std::vector<float>> copies_;
};

}  // namespace lamina::weights
