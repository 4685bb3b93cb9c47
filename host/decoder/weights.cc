#include "decoder/weights.h"

#include "core/error.h"
#include "core/float16.h"
#include "decoder/initialise.h"

namespace lamina::decoder {
namespace {

constexpr std::size_t kAlign = 64;
std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

void store(std::span<const float> values, DType dtype, std::byte* out) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::bf16) {
      reinterpret_cast<bfloat16*>(out)[i] = to_bfloat16(values[i]);
    } else if (dtype == DType::f64) {
      reinterpret_cast<double*>(out)[i] = values[i];
    } else {
      LAMINA_ASSERT(dtype == DType::f32);
      reinterpret_cast<float*>(out)[i] = values[i];
    }
  }
}

// Bytes of a file can be used where they lie: right type, nothing to transform, aligned elements.
bool usable_in_place(const PublishedTensor& tensor, const io::TensorView& view, DType wanted) {
  bool plain = !tensor.row || tensor.row->transforms.empty();
  bool is_aligned = reinterpret_cast<std::uintptr_t>(view.bytes.data()) %
                        static_cast<std::uintptr_t>(size_bytes(view.dtype)) ==
                    0;
  return plain && is_aligned && view.dtype == wanted;
}

}  // namespace

Weights Weights::load(const Model& model, std::shared_ptr<const io::WeightFiles> files,
                      DType compute, const Backend& backend) {
  std::vector<PublishedTensor> tensors = match_weights(model, *files);
  const auto& parameters = model.parameters().all();
  Weights out;
  out.files_ = files;
  out.pointers_.resize(parameters.size());
  out.mapped_.resize(parameters.size());
  std::vector<std::size_t> offsets(parameters.size());
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    DType wanted = parameters[i].used_dtype(compute);
    if (!tensors[i].name.empty()) {
      io::TensorView view = files->tensor(tensors[i].name);
      if (usable_in_place(tensors[i], view, wanted)) {
        out.pointers_[i] = const_cast<std::byte*>(view.bytes.data());
        out.mapped_[i] = true;
        continue;
      }
    }
    offsets[i] = bytes;
    bytes += aligned(static_cast<std::size_t>(parameters[i].num_elements() * size_bytes(wanted)));
  }
  out.buffer_ = backend.allocate(bytes);
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (out.mapped_[i]) continue;
    out.pointers_[i] = out.buffer_->data() + offsets[i];
    values.resize(static_cast<std::size_t>(parameters[i].num_elements()));
    if (tensors[i].name.empty())
      decoder::initialise(parameters[i], 0, values);  // an optional tensor that is not there
    else
      from_published(tensors[i], files->tensor(tensors[i].name), values);
    store(values, parameters[i].used_dtype(compute), out.buffer_->data() + offsets[i]);
  }
  return out;
}

Weights Weights::initialise(const Model& model, std::uint64_t seed, DType compute,
                            const Backend& backend) {
  const auto& parameters = model.parameters().all();
  Weights out;
  out.mapped_.resize(parameters.size());
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  for (const Parameter& p : parameters) {
    offsets.push_back(bytes);
    bytes +=
        aligned(static_cast<std::size_t>(p.num_elements() * size_bytes(p.used_dtype(compute))));
  }
  out.buffer_ = backend.allocate(bytes);
  std::vector<float> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    values.resize(static_cast<std::size_t>(parameters[i].num_elements()));
    decoder::initialise(parameters[i], seed, values);
    store(values, parameters[i].used_dtype(compute), out.buffer_->data() + offsets[i]);
    out.pointers_.push_back(out.buffer_->data() + offsets[i]);
  }
  return out;
}

}  // namespace lamina::decoder
