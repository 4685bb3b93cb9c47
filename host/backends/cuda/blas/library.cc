#include "backends/cuda/blas/library.h"

#include <fmt/format.h>

#include "core/error.h"

namespace lamina::cuda::blas {

void check(const Api& api, Status status, std::string_view function) {
  if (status == Status::success) return;
  const char* text = api.status_text(status);
  ErrorText error{
      "cuda", fmt::format("{} failed: {}", function, text ? text : "unknown status"), {}};
  if (status == Status::invalid_value) throw InternalError(std::move(error));
  throw DeviceError(ExitCode::memory, std::move(error));
}

Library::Library(const Api& api, bool tf32, std::unique_ptr<ChoiceFile> file)
    : api_(api), tf32_(tf32), file_(std::move(file)) {
  if (file_) choices_ = file_->choices();
  check(api_, api_.create(&handle_), "cublasLtCreate");
}

Library::~Library() { api_.destroy(handle_); }

AlgorithmChoice Library::choice(const ProblemKey& problem,
                                const std::function<AlgorithmChoice()>& choose) {
  const std::lock_guard lock(mutex_);
  if (const auto found = choices_.find(problem); found != choices_.end()) return found->second;
  const AlgorithmChoice& choice = choices_.emplace(problem, choose()).first->second;
  if (file_) file_->add(problem, choice);
  return choice;
}

}  // namespace lamina::cuda::blas
