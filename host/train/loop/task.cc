#include "train/loop/task.h"

namespace lamina::train {

decoder::ModelGraph Task::loss_graph(const decoder::Model& model, const decoder::GraphShape& shape,
                                     const decoder::GraphFeatures& features) const {
  return model.loss_graph(shape, features);
}

std::int64_t Task::count(const program::Microbatch& batch, const decoder::GraphShape& shape) const {
  return program::count_labels(batch.labels, shape.batch * shape.tokens);
}

std::shared_ptr<const Task> next_token_task() {
  static const auto task = std::make_shared<const Task>();
  return task;
}

}  // namespace lamina::train
