// Recomputes the quantities of a golden case one by one. Private to verify.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/session.h"
#include "inspect/verify/case.h"
#include "inspect/verify/forward.h"
#include "inspect/verify/inputs.h"
#include "inspect/verify/report.h"
#include "registry/discovery.h"
#include "runtime/backend.h"
#include "train/loop/train_step.h"
#include "train/optimizer/train_state.h"
#include "weights/publish/published.h"
#include "weights/weights.h"

namespace lamina::inspect {

class Verifier {
 public:
  Verifier(const std::string& directory, DType dtype, const registry::Catalog& plugins,
           const Backend& backend);
  VerifyReport run();

 private:
  void forward(const std::string& prefix, const program::Rows& rows,
               const ImageInputs* images = nullptr);
  void inside();
  void mrope();
  void images();
  void image_gradients(const program::Rows& rows, const ImageInputs& images);
  void gradients(const decoder::Model& model, const std::string& prefix, const program::Rows& rows);
  // The result of a step, and why it is not finite; "" if it is.
  static std::pair<train::StepResult, std::string> gradients_of(
      train::TrainStep& step, std::span<const program::Microbatch> batches, std::int64_t number);
  void with_aux();
  void alone();
  void prediction();
  void adapter();
  void dequantised();
  void greedy(const std::string& prefix, const decode::EmbeddingOverrides& overrides);
  void curve();
  void other_types();
  void list_skipped();

  // A factor for tolerances, which are for float32.
  double slack() const;
  void add(std::string quantity, double error, double tolerance, std::string note = {});
  void compare_logits(const std::string& name, std::span<const float> got);
  void compare_gradients(const std::string& prefix, const train::TrainState& state);
  void compare_gradient(const std::string& name, const std::vector<float>& got,
                        const std::vector<float>& want, double largest = 0,
                        double preset_tolerance = 1e-4);
  void compare_parameters(const std::string& prefix, const train::TrainState& state,
                          const char* tolerance);

  // True if the tensors in the files have published names and orders of rows. An adapter makes a
  // GGUF file be read in published order.
  bool has_published_tensors() const { return !files_->gguf() || model_->adapter(); }

  // A training state with the case's weights.
  std::unique_ptr<train::TrainState> training_state(bool accumulate);
  // A state for gradients, all zero; the weights are read once.
  train::TrainState& fresh_state();
  // f32 values of ours, one tensor for each parameter, as the checkpoint would have `tensor`.
  std::vector<float> as_published(std::size_t tensor, std::span<const TensorRef> values,
                                  weights::Values what) const;
  Queue& queue() const { return backend_.context().queue(); }

  GoldenCase case_;
  DType dtype_;
  bool is_coarse_ = false;  // we or the reference compute in bfloat16
  const registry::Catalog& plugins_;
  const Backend& backend_;
  std::unique_ptr<decoder::Model> model_;
  std::shared_ptr<io::WeightFiles> files_;
  std::unique_ptr<weights::Weights> weights_;
  std::unique_ptr<train::TrainState> state_;  // of fresh_state()
  std::vector<std::int64_t> placeholders_;    // ids that images replace
  weights::TensorMap published_;
  VerifyReport report_;
  std::vector<std::string> known_;  // quantities that were compared
};

}  // namespace lamina::inspect
