// The descriptors of the fake cuDNN: their attributes and their lifetimes.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/dnn/open.h"
#include "backends/cuda/emulation/dnn_compute.h"
#include "backends/cuda/emulation/failures_on_demand.h"

namespace lamina::cuda::emulation {

struct DnnDescriptor;
using DnnPointer = std::shared_ptr<DnnDescriptor>;

struct DnnValue {
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<DnnPointer> descriptors;  // instead of the bytes
};

struct DnnDescriptor {
  dnn::DescriptorType type = dnn::DescriptorType::tensor;
  bool finished = false;
  std::map<dnn::Attribute, DnnValue> values;
  // Set when it is finished.
  DnnTensor tensor;         // of a tensor
  DnnOperation operation;   // of an operation
  DnnGraph graph;           // of a graph, and of engines and plans for it
  bool fixed_order = true;  // of an engine and its plan
  std::int64_t workspace_bytes = 0;

  bool has(dnn::Attribute attribute) const { return values.contains(attribute); }
  template <typename T>
  T get(dnn::Attribute attribute, T otherwise = {}) const {
    const auto found = values.find(attribute);
    if (found == values.end()) return otherwise;
    T value;
    std::memcpy(&value, found->second.bytes.data(), sizeof value);
    return value;
  }
  template <typename T>
  std::vector<T> list(dnn::Attribute attribute) const {
    const DnnValue& value = values.at(attribute);
    std::vector<T> out(static_cast<std::size_t>(value.count));
    std::memcpy(out.data(), value.bytes.data(), value.bytes.size());
    return out;
  }
  const std::vector<DnnPointer>& descriptors(dnn::Attribute attribute) const {
    return values.at(attribute).descriptors;
  }
  // Null if it is not set.
  const DnnDescriptor* descriptor(dnn::Attribute attribute) const {
    return has(attribute) ? descriptors(attribute).at(0).get() : nullptr;
  }
};

struct DnnObjects {
  std::mutex mutex;
  std::map<const void*, DnnPointer> descriptors;
  std::map<const void*, dnn::DnnStream> handles;  // and their streams
  FailuresOnDemand<dnn::DnnStatus> failures;
  std::atomic<int> plans = 0, executions = 0, without_engines = 0;

  static DnnObjects& instance();
  // Null if it does not exist.
  DnnPointer find(const void* descriptor);
};

// Sets the text that last_error() returns on this thread.
dnn::DnnStatus dnn_refuse(dnn::DnnStatus status, std::string reason);
template <typename... Args>
dnn::DnnStatus dnn_bad(fmt::format_string<Args...> format, Args&&... args) {
  return dnn_refuse(dnn::DnnStatus::bad_param, fmt::format(format, std::forward<Args>(args)...));
}
// Begins a call: returns the failure that a test asks for.
dnn::DnnStatus dnn_begin(std::string_view function);

// Checks a descriptor and sets what follows from its attributes (dnn_finish.cc).
dnn::DnnStatus finish(DnnDescriptor& d);

// Sets the functions for handles, descriptors and attributes.
void add_dnn_object_functions(dnn::DnnApi& api);

}  // namespace lamina::cuda::emulation
