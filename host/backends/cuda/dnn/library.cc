#include "backends/cuda/dnn/library.h"

#include <fmt/format.h>

#include <array>

#include "backends/cuda/dnn/attention.h"
#include "core/error.h"

namespace lamina::cuda::dnn {

namespace {
constexpr const char* kSwitch = "LAMINA_GPU_CUDNN";
}  // namespace

struct DnnLibrary::Plans {
  std::map<DnnAttentionSpec, Planned> made;
};

std::string last_error(const DnnApi& api) {
  std::array<char, 1024> text = {};
  api.last_error(text.data(), text.size());
  return text.data();
}

void check(const DnnApi& api, DnnStatus status, std::string_view function) {
  if (status == DnnStatus::success) return;
  const char* const text = api.status_text(status);
  std::string what = fmt::format("{} failed: {}", function, text ? text : "unknown status");
  ErrorText error{"cuda", std::move(what), {}};
  if (const std::string reason = last_error(api); !reason.empty())
    error.notes.push_back("cuDNN says: " + reason);
  if (category(status) == DnnStatus::bad_param) throw InternalError(std::move(error));
  error.notes.push_back(fmt::format("{}=0 uses the kernels of lamina instead", kSwitch));
  throw DeviceError(ExitCode::memory, std::move(error));
}

DnnLibrary::DnnLibrary(const DnnApi& api) : api_(api), plans_(std::make_unique<Plans>()) {
  check(api_, api_.create(&handle_), "cudnnCreate");
}

DnnLibrary::~DnnLibrary() {
  plans_.reset();
  api_.destroy(handle_);
}

Planned DnnLibrary::plan(const DnnAttentionSpec& spec) {
  const std::lock_guard lock(mutex_);
  const auto found = plans_->made.find(spec);
  if (found != plans_->made.end()) return found->second;
  return plans_->made.emplace(spec, make_attention_plan(*this, spec)).first->second;
}

void DnnLibrary::execute(DnnStream stream, Descriptor plan, Descriptor variant_pack) {
  const std::lock_guard lock(mutex_);
  if (stream != stream_) check(api_, api_.set_stream(handle_, stream), "cudnnSetStream");
  stream_ = stream;
  check(api_, api_.execute(handle_, plan, variant_pack), "cudnnBackendExecute");
}

}  // namespace lamina::cuda::dnn
