#include "backends/cuda/emulation/dnn_compute.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cuda/emulation/plain_bytes.h"
#include "core/error.h"
#include "core/float16.h"

namespace lamina::cuda::emulation {
namespace {

using dnn::DnnType;
using Mode = dnn::PointwiseMode;

float read(const std::byte* at, DnnType type) {
  switch (type) {
    case DnnType::f32:
      return read_as<float>(at);
    case DnnType::f16:
      return to_float(read_as<float16>(at));
    case DnnType::bf16:
      return to_float(read_as<bfloat16>(at));
    case DnnType::i32:
      return static_cast<float>(read_as<std::int32_t>(at));
    case DnnType::boolean:
      return static_cast<float>(read_as<std::uint8_t>(at));
  }
  return 0;
}

float rounded(float value, DnnType type) {
  if (type == DnnType::f16) return to_float(to_float16(value));
  if (type == DnnType::bf16) return to_float(to_bfloat16(value));
  return value;
}

void write(std::byte* at, DnnType type, float value) {
  if (type == DnnType::f16) return write_as(at, to_float16(value));
  if (type == DnnType::bf16) return write_as(at, to_bfloat16(value));
  LAMINA_ASSERT(type == DnnType::f32);
  write_as(at, value);
}

// The values of one tensor, at the places that its strides give them.
class Values {
 public:
  explicit Values(const DnnTensor& tensor)
      : tensor_(tensor),
        values_(static_cast<std::size_t>(tensor.extent()),
                std::numeric_limits<float>::quiet_NaN()) {}

  const DnnTensor& tensor() const { return tensor_; }
  // Dims of 1 are broadcast.
  float& at(const DnnDims& index) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d)
      if (tensor_.dims[d] > 1) offset += index[d] * tensor_.strides[d];
    return values_[static_cast<std::size_t>(offset)];
  }
  void load(const std::byte* from) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] = read(from + static_cast<std::int64_t>(i) * bytes_of(tensor_.type), tensor_.type);
  }
  void store(std::byte* to);
  void round() {
    for (float& value : values_) value = rounded(value, tensor_.type);
  }
  // Takes the elements of another tensor at the same places.
  void take(const Values& other) {
    LAMINA_ASSERT(other.values_.size() == values_.size());
    values_ = other.values_;
  }

 private:
  const DnnTensor& tensor_;
  std::vector<float> values_;
};

// Calls fn(index) for each element.
template <typename Fn>
void each(const DnnDims& dims, Fn fn) {
  DnnDims i = {};
  for (i[0] = 0; i[0] < dims[0]; ++i[0])
    for (i[1] = 0; i[1] < dims[1]; ++i[1])
      for (i[2] = 0; i[2] < dims[2]; ++i[2])
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) fn(i);
}

void Values::store(std::byte* to) {
  each(tensor_.dims, [&](const DnnDims& i) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d) offset += i[d] * tensor_.strides[d];
    write(to + offset * bytes_of(tensor_.type), tensor_.type, at(i));
  });
}

float apply(Mode mode, float x, float b, float t) {
  switch (mode) {
    case Mode::add:
      return x + b;
    case Mode::mul:
      return x * b;
    case Mode::max:
      return std::max(x, b);
    case Mode::div:
      return x / b;
    case Mode::sub:
      return x - b;
    case Mode::exp:
      return std::exp(x);
    case Mode::log:
      return std::log(x);
    case Mode::cmp_eq:
      return x == b;
    case Mode::cmp_gt:
      return x > b;
    case Mode::cmp_ge:
      return x >= b;
    case Mode::cmp_lt:
      return x < b;
    case Mode::logical_and:
      return x != 0 && b != 0;
    case Mode::binary_select:
      return t != 0 ? x : b;
    case Mode::gen_index:
      break;
  }
  return std::numeric_limits<float>::quiet_NaN();
}

class Run {
 public:
  Run(const DnnGraph& graph, const std::map<std::int64_t, std::byte*>& places, std::int64_t first_k)
      : places_(places), first_k_(first_k) {
    for (const auto& [id, tensor] : graph.tensors) values_.emplace(id, tensor);
  }

  void operation(const DnnOperation& op) {
    load(op.x), load(op.b), load(op.t);
    load(op.m_limit), load(op.n_limit), load(op.k_limit);
    switch (op.kind) {
      case DnnOperation::Kind::matmul:
        matmul(op);
        break;
      case DnnOperation::Kind::pointwise:
        pointwise(op);
        break;
      case DnnOperation::Kind::reduction:
        reduce(op);
        break;
      case DnnOperation::Kind::reshape:
        of(op.y).take(of(op.x));
        break;
    }
    Values& y = of(op.y);
    y.round();
    if (!y.tensor().is_virtual) y.store(places_.at(op.y));
    written_[op.y] = true;
  }

 private:
  Values& of(std::int64_t id) { return values_.at(id); }

  void load(std::int64_t id) {
    if (id == 0 || of(id).tensor().is_virtual || written_[id]) return;
    of(id).load(places_.at(id));
    written_[id] = true;
  }

  std::int64_t limit(std::int64_t id, std::int64_t batch, std::int64_t size) {
    return id == 0 ? size : static_cast<std::int64_t>(of(id).at({batch, 0, 0, 0}));
  }

  // cuDNN reads past a tensor whose length is above its dim.
  void check_limits(std::int64_t id, std::int64_t batch, std::int64_t size) {
    for (std::int64_t b = 0; b < batch; ++b)
      if (const std::int64_t length = limit(id, b, size); length < 0 || length > size)
        throw InternalError(
            {"emulated cuDNN", fmt::format("a length of {} in a dim of {}", length, size), {}});
  }

  void matmul(const DnnOperation& op) {
    Values &a = of(op.x), &b = of(op.b), &c = of(op.y);
    const std::int64_t size = a.tensor().dims[3];
    const DnnDims& results = c.tensor().dims;
    check_limits(op.m_limit, results[0], results[2]);
    check_limits(op.n_limit, results[0], results[3]);
    check_limits(op.k_limit, results[0], size);
    const std::int64_t group = c.tensor().dims[1] / b.tensor().dims[1];
    each(c.tensor().dims, [&](const DnnDims& i) {
      if (i[2] >= limit(op.m_limit, i[0], i[2] + 1) || i[3] >= limit(op.n_limit, i[0], i[3] + 1)) {
        if (op.pads) c.at(i) = 0;
        return;
      }
      const std::int64_t count = limit(op.k_limit, i[0], size);
      float sum = 0;
      for (std::int64_t step = 0; step < count; ++step) {
        const std::int64_t k = (step + first_k_) % count;
        sum += a.at({i[0], i[1], i[2], k}) * b.at({i[0], i[1] / group, k, i[3]});
      }
      c.at(i) = sum;
    });
  }

  void pointwise(const DnnOperation& op) {
    Values& y = of(op.y);
    each(y.tensor().dims, [&](const DnnDims& i) {
      if (op.mode == Mode::gen_index) {
        y.at(i) = static_cast<float>(i[static_cast<std::size_t>(op.axis)]);
        return;
      }
      const float b = op.b == 0 ? 0 : of(op.b).at(i), t = op.t == 0 ? 0 : of(op.t).at(i);
      y.at(i) = apply(op.mode, of(op.x).at(i), b, t);
    });
  }

  void reduce(const DnnOperation& op) {
    Values &x = of(op.x), &y = of(op.y);
    const bool adds = op.reduction == dnn::ReductionOperator::add;
    const DnnDims &from = x.tensor().dims, &to = y.tensor().dims;
    each(to,
         [&](const DnnDims& i) { y.at(i) = adds ? 0 : -std::numeric_limits<float>::infinity(); });
    each(from, [&](const DnnDims& i) {
      DnnDims place = {};
      for (std::size_t d = 0; d < 4; ++d) place[d] = i[d] / (from[d] / to[d]);
      float& out = y.at(place);
      out = adds ? out + x.at(i) : std::max(out, x.at(i));
    });
  }

  const std::map<std::int64_t, std::byte*>& places_;
  const std::int64_t first_k_;
  std::map<std::int64_t, Values> values_;
  std::map<std::int64_t, bool> written_;
};

}  // namespace

std::int64_t DnnTensor::extent() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < 4; ++d) last += (dims[d] - 1) * strides[d];
  return last + 1;
}

std::int64_t bytes_of(DnnType type) {
  switch (type) {
    case DnnType::f32:
    case DnnType::i32:
      return 4;
    case DnnType::f16:
    case DnnType::bf16:
      return 2;
    case DnnType::boolean:
      return 1;
  }
  return 0;
}

void compute(const DnnGraph& graph, const std::map<std::int64_t, std::byte*>& places,
             std::int64_t first_k) {
  Run run(graph, places, first_k);
  for (const DnnOperation& op : graph.operations) run.operation(op);
}

}  // namespace lamina::cuda::emulation
