// Graphs of cuDNN's operations over tensors of four dims, and their plans.
//
//   DnnGraphBuilder g(library);
//   const GraphTensor s = g.intermediate(DnnType::f32, {b, h, t, t});
//   g.matmul(q, k, s, {});
//   PlanResult result = g.plan();
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/dnn/library.h"

namespace lamina::cuda::dnn {

using Dims = std::array<std::int64_t, 4>;

// A descriptor, destroyed with this object.
class OwnedDescriptor {
 public:
  OwnedDescriptor(const DnnApi& api, DescriptorType type);
  ~OwnedDescriptor();
  OwnedDescriptor(const OwnedDescriptor&) = delete;
  OwnedDescriptor& operator=(const OwnedDescriptor&) = delete;

  Descriptor get() const { return descriptor_; }
  void set(Attribute attribute, AttributeType type, std::int64_t count, const void* values) const;
  template <typename T>
  void set(Attribute attribute, AttributeType type, const T& value) const {
    set(attribute, type, 1, &value);
  }
  void set_descriptor(Attribute attribute, const OwnedDescriptor& value) const {
    set(attribute, AttributeType::descriptor, value.get());
  }
  void finalize() const;
  DnnStatus try_finalize() const;

 private:
  const DnnApi& api_;
  Descriptor descriptor_ = nullptr;
};

struct GraphTensor {
  const OwnedDescriptor* descriptor = nullptr;  // of the builder
  std::int64_t id = 0;
  Dims dims = {}, strides = {};
  DnnType type = DnnType::f32;

  explicit operator bool() const { return descriptor != nullptr; }
};

// Returns the strides of a dense tensor.
Dims dense(const Dims& dims);

// A plan with all descriptors that it refers to.
class Plan {
 public:
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  // Enqueues the plan. `pointers` are places on the GPU, in the order of `ids`.
  void run(DnnLibrary& library, DnnStream stream, std::vector<std::int64_t> ids,
           std::vector<void*> pointers, void* workspace) const;

 private:
  friend class DnnGraphBuilder;
  struct Scalar {
    std::int64_t id;
    std::array<std::byte, 4> value;
  };
  std::vector<std::unique_ptr<OwnedDescriptor>> descriptors_;
  std::vector<Scalar> scalars_;
  const OwnedDescriptor* plan_ = nullptr;
  std::size_t workspace_bytes_ = 0;
};

struct PlanResult {
  std::unique_ptr<Plan> plan;
  std::string why_not;  // cuDNN's reason, if there is no plan
};

class DnnGraphBuilder {
 public:
  explicit DnnGraphBuilder(DnnLibrary& library);

  // A tensor in memory.
  GraphTensor tensor(DnnType type, const Dims& dims, const Dims& strides);
  // A tensor that exists only inside the graph.
  GraphTensor intermediate(DnnType type, const Dims& dims);
  GraphTensor intermediate(DnnType type, const Dims& dims, const Dims& strides);
  // A number; the same one in each run.
  GraphTensor scalar(float value);
  GraphTensor scalar(std::int32_t value);

  // c = a b, each head of b for several heads of a; m, n and k may be limited by i32[B, 1, 1, 1].
  struct MatmulLimits {
    GraphTensor m = {}, n = {}, k = {};
    bool pad = false;  // c is 0 outside of the limits
  };
  void matmul(const GraphTensor& a, const GraphTensor& b, const GraphTensor& c,
              const MatmulLimits& limits);
  // Results have the dims of x and b, broadcast, in `type`; `compute` is the type of the
  // arithmetic.
  GraphTensor pointwise(PointwiseMode mode, const GraphTensor& x, const GraphTensor& b = {},
                        DnnType type = DnnType::f32, DnnType compute = DnnType::f32);
  void pointwise_into(const GraphTensor& y, PointwiseMode mode, const GraphTensor& x,
                      const GraphTensor& b, DnnType compute = DnnType::f32);
  GraphTensor index(const GraphTensor& x, std::int64_t dim);
  GraphTensor select(const GraphTensor& x, const GraphTensor& b, const GraphTensor& where);
  void reduce(ReductionOperator op, const GraphTensor& x, const GraphTensor& y);
  // Another view of the elements of x.
  GraphTensor reshape(const GraphTensor& x, const Dims& dims, const Dims& strides, DnnType type);

  // Finishes the graph. Takes the first engine that cuDNN recommends and whose sums have a fixed
  // order. The builder may not be used afterwards.
  PlanResult plan();

 private:
  OwnedDescriptor& add(DescriptorType type);
  GraphTensor add_tensor(GraphTensor t, bool is_virtual, bool by_value);
  GraphTensor add_scalar(DnnType type, const void* value);
  void pointwise_operation(PointwiseMode mode, const GraphTensor& x, const GraphTensor& b,
                           const GraphTensor& t, const GraphTensor& y, DnnType compute,
                           std::int64_t axis = -1);
  bool is_deterministic(Descriptor engine_config) const;

  DnnLibrary& library_;
  const DnnApi& api_;
  std::unique_ptr<Plan> made_;
  std::vector<Descriptor> operations_;
  std::int64_t next_id_ = 1;
};

}  // namespace lamina::cuda::dnn
